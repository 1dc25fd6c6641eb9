#include "pipeline/corpus/corpus_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>

namespace braid {
namespace corpus_spec_test {

using testing::HasSubstr;

v1::CorpusSpec Minimal() {
  v1::CorpusSpec spec;
  spec.add_paths("/data/wiki.jsonl.zst");
  return spec;
}

TEST(ResolveCorpusSpecTest, FillsInTheDocumentedDefaults) {
  const auto resolved = ResolveCorpusSpec(Minimal());
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->name(), "wiki.jsonl.zst");
  EXPECT_EQ(resolved->ingest().max_document_bytes(), 64 << 20);
  EXPECT_EQ(resolved->ingest().split_bytes(), 0);
  EXPECT_EQ(resolved->tokenizer().vocab_size(), 0);  // by the size of the sample
  EXPECT_EQ(resolved->tokenizer().sample_bytes(), 16 << 20);
  EXPECT_EQ(resolved->embedder().kind(), "hashing");
  EXPECT_EQ(resolved->embedder().dimension(), 0) << "by the number of documents";
  EXPECT_EQ(resolved->embedder().max_ngram(), 2);
  EXPECT_EQ(resolved->neighbors().index(), "auto");
  EXPECT_EQ(resolved->neighbors().k(), 20);
  EXPECT_EQ(resolved->neighbors().recall_sample(), 1000);
  EXPECT_DOUBLE_EQ(resolved->deduplicate().min_cosine(), 0.9);
  EXPECT_DOUBLE_EQ(resolved->deduplicate().min_jaccard(), 0.8);
  EXPECT_DOUBLE_EQ(resolved->deduplicate().max_heldout_containment(), 0.5);
  EXPECT_EQ(resolved->deduplicate().near_duplicates(), "graph");
  EXPECT_EQ(resolved->order(), v1::RANDOM);
  EXPECT_EQ(resolved->pack().sequence_length(), 4096);
  EXPECT_DOUBLE_EQ(HeldoutFraction(*resolved), 0.03);
}

TEST(ResolveStoredSpecTest, KeepsTheDefaultOrderOfEarlierVersions) {
  const auto resolved = ResolveStoredSpec(Minimal());
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->order(), v1::SIMILARITY);
  for (const v1::OrderMode order : {v1::SIMILARITY, v1::RANDOM, v1::SOURCE}) {
    v1::CorpusSpec spec = Minimal();
    spec.set_order(order);
    EXPECT_EQ(ResolveStoredSpec(spec)->SerializeAsString(),
              ResolveCorpusSpec(spec)->SerializeAsString());
  }
}

// 0 holds out no documents; earlier versions wrote -1 for that.
TEST(ResolveCorpusSpecTest, DoesNotChangeAResolvedSpec) {
  for (const double fraction : {0.0, -1.0, 0.25}) {
    v1::CorpusSpec spec = Minimal();
    spec.mutable_pack()->set_heldout_fraction(fraction);
    const auto once = ResolveCorpusSpec(spec);
    ASSERT_TRUE(once.ok());
    const auto twice = ResolveCorpusSpec(*once);
    ASSERT_TRUE(twice.ok());
    EXPECT_EQ(once->SerializeAsString(), twice->SerializeAsString());
    EXPECT_DOUBLE_EQ(HeldoutFraction(*once), std::max(0.0, fraction));
  }
}

TEST(ResolveCorpusSpecTest, MakesPathsAbsolute) {
  v1::CorpusSpec spec;
  spec.add_paths("a/../b/");
  const auto resolved = ResolveCorpusSpec(spec);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->paths(0), (std::filesystem::current_path() / "b").string());
  EXPECT_EQ(resolved->name(), "b");
}

TEST(ResolveCorpusSpecTest, MakesTheModelOfAnEmbedderAbsolute) {
  v1::CorpusSpec spec = Minimal();
  spec.mutable_embedder()->set_kind("contriever");
  spec.mutable_embedder()->set_model_dir("models/../bert/");
  const auto resolved = ResolveCorpusSpec(spec);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->embedder().model_dir(), (std::filesystem::current_path() / "bert").string());
  EXPECT_EQ(resolved->embedder().max_tokens(), 0) << "by the model";
}

struct BadSetting {
  std::string field;
  std::string got;
  std::function<void(v1::CorpusSpec*)> set;
};

TEST(ResolveCorpusSpecTest, ReportsTheFieldAndValueOfABadSetting) {
  const BadSetting settings[] = {
      {"paths", "none", [](auto* s) { s->clear_paths(); }},
      {"paths", "empty", [](auto* s) { s->set_paths(0, ""); }},
      {"ingest.max_document_bytes", "-1",
       [](auto* s) { s->mutable_ingest()->set_max_document_bytes(-1); }},
      {"ingest.split_bytes", "7", [](auto* s) { s->mutable_ingest()->set_split_bytes(7); }},
      {"tokenizer.vocab_size", "100", [](auto* s) { s->mutable_tokenizer()->set_vocab_size(100); }},
      {"tokenizer.sample_bytes", "-5",
       [](auto* s) { s->mutable_tokenizer()->set_sample_bytes(-5); }},
      {"embedder.kind", "bert", [](auto* s) { s->mutable_embedder()->set_kind("bert"); }},
      {"embedder.addresses", "none", [](auto* s) { s->mutable_embedder()->set_kind("remote"); }},
      {"embedder.addresses", "h:1", [](auto* s) { s->mutable_embedder()->add_addresses("h:1"); }},
      {"embedder.addresses", "leave out \"http://\"",
       [](auto* s) {
         s->mutable_embedder()->set_kind("remote");
         s->mutable_embedder()->add_addresses("http://h:1");
       }},
      {"embedder.model_dir",
       "none, expected a directory with config.json, model.safetensors and "
       "vocab.txt or tokenizer.json",
       [](auto* s) { s->mutable_embedder()->set_kind("contriever"); }},
      {"embedder.model_dir", "/m", [](auto* s) { s->mutable_embedder()->set_model_dir("/m"); }},
      {"embedder.max_tokens", "9", [](auto* s) { s->mutable_embedder()->set_max_tokens(9); }},
      {"embedder.max_tokens", "2",
       [](auto* s) {
         s->mutable_embedder()->set_kind("contriever");
         s->mutable_embedder()->set_model_dir("/m");
         s->mutable_embedder()->set_max_tokens(2);
       }},
      {"embedder.addresses", "h:1",
       [](auto* s) {
         s->mutable_embedder()->set_kind("contriever");
         s->mutable_embedder()->set_model_dir("/m");
         s->mutable_embedder()->add_addresses("h:1");
       }},
      {"embedder.dimension", "-4", [](auto* s) { s->mutable_embedder()->set_dimension(-4); }},
      {"embedder.max_ngram", "9", [](auto* s) { s->mutable_embedder()->set_max_ngram(9); }},
      {"embedder.dimension", "0", [](auto* s) { s->mutable_embedder()->set_dimension(0); }},
      {"neighbors.k", "-2", [](auto* s) { s->mutable_neighbors()->set_k(-2); }},
      {"neighbors.k", "0", [](auto* s) { s->mutable_neighbors()->set_k(0); }},
      {"neighbors.index", "IVF16,Falt",
       [](auto* s) { s->mutable_neighbors()->set_index("IVF16,Falt"); }},
      {"neighbors.index", "PQ7", [](auto* s) { s->mutable_neighbors()->set_index("IVF16,PQ7"); }},
      {"neighbors.index", "at most 1048576",
       [](auto* s) { s->mutable_neighbors()->set_index("IVF99999999,Flat"); }},
      {"neighbors.index", "got NSG", [](auto* s) { s->mutable_neighbors()->set_index("NSG16"); }},
      {"neighbors.index", "got NSG",
       [](auto* s) {
         s->mutable_ingest()->set_embedding_field("v");
         s->mutable_neighbors()->set_index("NSG16");
       }},
      {"neighbors.nprobe", "-1", [](auto* s) { s->mutable_neighbors()->set_nprobe(-1); }},
      {"neighbors.recall_sample", "-1",
       [](auto* s) { s->mutable_neighbors()->set_recall_sample(-1); }},
      {"deduplicate.min_cosine", "1.5",
       [](auto* s) { s->mutable_deduplicate()->set_min_cosine(1.5); }},
      {"deduplicate.min_jaccard", "nan",
       [](auto* s) {
         s->mutable_deduplicate()->set_min_jaccard(std::numeric_limits<double>::quiet_NaN());
       }},
      {"deduplicate.min_jaccard", "0",
       [](auto* s) { s->mutable_deduplicate()->set_min_jaccard(0); }},
      {"deduplicate.max_heldout_containment", "3",
       [](auto* s) { s->mutable_deduplicate()->set_max_heldout_containment(3); }},
      {"deduplicate.near_duplicates", "simhash",
       [](auto* s) { s->mutable_deduplicate()->set_near_duplicates("simhash"); }},
      {"deduplicate.minhash_bands", "5",
       [](auto* s) { s->mutable_deduplicate()->set_minhash_bands(5); }},
      {"deduplicate.minhash_rows", "1",
       [](auto* s) {
         s->mutable_deduplicate()->set_near_duplicates("minhash");
         s->mutable_deduplicate()->set_minhash_rows(1);
       }},
      {"decontaminate.paths", "empty", [](auto* s) { s->mutable_decontaminate()->add_paths(""); }},
      {"decontaminate.report_only", "true",
       [](auto* s) { s->mutable_decontaminate()->set_report_only(true); }},
      {"order", "17", [](auto* s) { s->set_order(static_cast<v1::OrderMode>(17)); }},
      {"pack.sequence_length", "1", [](auto* s) { s->mutable_pack()->set_sequence_length(1); }},
      {"pack.heldout_fraction", "1.5",
       [](auto* s) { s->mutable_pack()->set_heldout_fraction(1.5); }},
      {"ingest.where", "the end", [](auto* s) { s->mutable_ingest()->set_where("n >"); }},
      {"ingest.split_bytes", "600",
       [](auto* s) {
         s->mutable_ingest()->set_embedding_field("v");
         s->mutable_ingest()->set_split_bytes(600);
       }},
      {"embedder.kind", "hashing",
       [](auto* s) {
         s->mutable_ingest()->set_embedding_field("v");
         s->mutable_embedder()->set_kind("hashing");
       }},
      {"embedder.kind", "corpus", [](auto* s) { s->mutable_embedder()->set_kind("corpus"); }},
      {"embedder.model_dir", "none", [](auto* s) { s->mutable_embedder()->set_kind("static"); }},
      {"embedder.text_prefix",
       "query: ", [](auto* s) { s->mutable_embedder()->set_text_prefix("query: "); }},
      {"ingest.max_document_bytes", "0",
       [](auto* s) { s->mutable_ingest()->set_max_document_bytes(0); }},
      {"pack.runs_per_instance", "0", [](auto* s) { s->mutable_pack()->set_runs_per_instance(0); }},
      {"pack.runs_per_instance", "4097",
       [](auto* s) { s->mutable_pack()->set_runs_per_instance(4097); }},
      {"order_partitions", "0", [](auto* s) { s->set_order_partitions(0); }},
      {"num_threads", "-1", [](auto* s) { s->set_num_threads(-1); }},
  };
  for (const BadSetting& setting : settings) {
    v1::CorpusSpec spec = Minimal();
    setting.set(&spec);
    const auto resolved = ResolveCorpusSpec(spec);
    ASSERT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument) << setting.field;
    const std::string message(resolved.status().message());
    EXPECT_THAT(message, HasSubstr(setting.field));
    EXPECT_THAT(message, HasSubstr("got"));
    EXPECT_THAT(message, HasSubstr(setting.got));
    EXPECT_THAT(message, HasSubstr("expected"));
  }
}

// A job that an earlier version stored with such a setting still runs.
TEST(CheckSettingsAreUsedTest, RefusesSettingsWithoutEffectThatStoredJobsMayHave) {
  const BadSetting settings[] = {
      {"embedder.dimension", "64",
       [](auto* s) {
         s->mutable_embedder()->set_kind("remote");
         s->mutable_embedder()->add_addresses("h:1");
         s->mutable_embedder()->set_dimension(64);
       }},
      {"embedder.dimension", "64",
       [](auto* s) {
         s->mutable_ingest()->set_embedding_field("v");
         s->mutable_embedder()->set_dimension(64);
       }},
      {"embedder.max_ngram", "3",
       [](auto* s) {
         s->mutable_embedder()->set_kind("static");
         s->mutable_embedder()->set_model_dir("/m");
         s->mutable_embedder()->set_max_ngram(3);
       }},
      {"tokenizer.sample_bytes", "4096",
       [](auto* s) {
         s->mutable_tokenizer()->set_model_path("/t.model");
         s->mutable_tokenizer()->set_sample_bytes(4096);
       }},
      {"deduplicate.min_cosine", "0.7",
       [](auto* s) {
         s->mutable_deduplicate()->set_near_duplicates("minhash");
         s->mutable_deduplicate()->set_min_cosine(0.7);
       }},
      {"deduplicate.max_heldout_cosine", "0.8",
       [](auto* s) {
         s->mutable_deduplicate()->set_disabled(true);
         s->mutable_deduplicate()->set_max_heldout_cosine(0.8);
       }},
      {"deduplicate.near_duplicates", "\"minhash\"",
       [](auto* s) {
         s->mutable_deduplicate()->set_disabled(true);
         s->mutable_deduplicate()->set_near_duplicates("minhash");
       }},
      {"neighbors.nprobe", "4",
       [](auto* s) {
         s->mutable_neighbors()->set_index("Flat");
         s->mutable_neighbors()->set_nprobe(4);
       }},
      {"order_partitions", "2", [](auto* s) { s->set_order_partitions(2); }},
      {"pack.runs_per_instance", "2", [](auto* s) { s->mutable_pack()->set_runs_per_instance(2); }},
      {"order_partitions", "2",
       [](auto* s) {
         s->set_order(v1::RANDOM);
         s->set_order_partitions(2);
       }},
      {"order_partitions", "2",
       [](auto* s) {
         s->set_order(v1::SOURCE);
         s->set_order_partitions(2);
       }},
      {"pack.runs_per_instance", "2",
       [](auto* s) {
         s->set_order(v1::RANDOM);
         s->mutable_pack()->set_runs_per_instance(2);
       }},
  };
  for (const BadSetting& setting : settings) {
    v1::CorpusSpec spec = Minimal();
    setting.set(&spec);
    const absl::Status status = CheckSettingsAreUsed(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << setting.field;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(setting.field + ": got " + setting.got + ", expected none"));
    EXPECT_TRUE(ResolveCorpusSpec(spec).ok()) << setting.field;
  }
}

TEST(CheckSettingsAreUsedTest, AcceptsSettingsThatAreUsedAndResolvedSpecs) {
  v1::CorpusSpec all = Minimal();
  all.mutable_embedder()->set_dimension(64);
  all.mutable_embedder()->set_max_ngram(3);
  all.mutable_tokenizer()->set_sample_bytes(4096);
  all.mutable_deduplicate()->set_min_cosine(0.7);
  all.mutable_neighbors()->set_index("IVF8,Flat");
  all.mutable_neighbors()->set_nprobe(4);
  all.set_order(v1::SIMILARITY);
  all.set_order_partitions(2);
  all.mutable_pack()->set_runs_per_instance(2);
  EXPECT_TRUE(CheckSettingsAreUsed(all).ok()) << CheckSettingsAreUsed(all);
  const std::function<void(v1::CorpusSpec*)> kinds[] = {
      [](auto*) {},
      [](auto* s) { s->mutable_ingest()->set_embedding_field("v"); },
      [](auto* s) { s->mutable_tokenizer()->set_model_path("/t.model"); },
      [](auto* s) { s->mutable_deduplicate()->set_near_duplicates("minhash"); },
      [](auto* s) { s->mutable_neighbors()->set_index("Flat"); },
      [](auto* s) { s->set_order(v1::RANDOM); },
      [](auto* s) { s->mutable_deduplicate()->set_disabled(true); },
  };
  for (const auto& set : kinds) {
    v1::CorpusSpec spec = Minimal();
    set(&spec);
    const auto resolved = ResolveCorpusSpec(spec);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_TRUE(CheckSettingsAreUsed(*resolved).ok()) << CheckSettingsAreUsed(*resolved);
  }
}

}  // namespace corpus_spec_test
}  // namespace braid
