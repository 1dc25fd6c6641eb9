#include "pipeline/jobs/job_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "formats/indexed_dataset.h"
#include "formats/manifest.h"
#include "formats/npy.h"
#include "formats/tokenizer.h"
#include "pipeline/stages/embed_stage.h"
#include "pipeline/stages/provenance.h"
#include "pipeline/store/document_store.h"
#include "tests/pipeline/jobs/finished_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace job_runner_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class JobRunnerTest : public FinishedJobTest {};

TEST_F(JobRunnerTest, AccountsForEveryRecord) {
  const v1::JobResult& result = Result();
  EXPECT_EQ(result.num_documents_read(), GeneratedCorpus::kRecords);
  EXPECT_EQ(result.num_rejected(), GeneratedCorpus::kRejects);
  EXPECT_EQ(result.num_duplicates(), GeneratedCorpus::kDuplicates);
  EXPECT_EQ(result.num_documents_read(), result.num_rejected() + result.num_duplicates() +
                                             result.num_heldout() + result.num_heldout_overlaps() +
                                             result.num_documents());
  EXPECT_GT(result.num_heldout(), 5);
  int64_t rejects = 0;
  for (const v1::RejectCount& reject : result.rejects()) rejects += reject.count();
  EXPECT_EQ(rejects, result.num_rejected());
  const std::string log = *ReadFile(finished_home().StageDirectory("ingest") / "rejects.jsonl");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), GeneratedCorpus::kRejects);
}

TEST_F(JobRunnerTest, SplitsDocumentsIntoDisjointTrainingAndHeldOutSets) {
  std::vector<uint32_t> all = Numbers("order", "order.npy");
  const std::vector<uint32_t> heldout = Numbers("order", "heldout.npy");
  EXPECT_EQ(static_cast<int64_t>(all.size()), Result().num_documents());
  EXPECT_EQ(static_cast<int64_t>(heldout.size()), Result().num_heldout());
  all.insert(all.end(), heldout.begin(), heldout.end());
  const auto keep =
      NpyArray<uint8_t>::Open(finished_home().StageDirectory("deduplicate") / "keep.npy");
  ASSERT_TRUE(keep.ok());
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < keep->values().size(); ++i) {
    if (keep->values()[i] != 0) kept.push_back(i);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, kept) << "every kept document exactly once";
}

TEST_F(JobRunnerTest, PacksEveryTokenOfEveryTrainingDocument) {
  const auto instances = IndexedDataset::Open(Dataset() / "instances");
  const auto tokens = IndexedDataset::Open(finished_home().StageDirectory("tokenize") / "tokens");
  const auto provenance = Provenance::Open(Dataset() / "provenance");
  ASSERT_TRUE(instances.ok() && tokens.ok() && provenance.ok()) << provenance.status();
  int64_t num_tokens = 0;
  for (const uint32_t document : Numbers("order", "order.npy")) {
    std::vector<int32_t> expected = tokens->Read(document);
    expected.push_back(2);  // EOS
    std::vector<int32_t> found;
    for (const ProvenanceSpan& span : provenance->Document(document)) {
      const std::vector<int32_t> instance = instances->Read(span.instance);
      ASSERT_EQ(span.document_offset, static_cast<int64_t>(found.size()));
      found.insert(found.end(), instance.begin() + span.instance_offset,
                   instance.begin() + span.instance_offset + span.length);
    }
    ASSERT_EQ(found, expected) << provenance->document_id(document);
    num_tokens += static_cast<int64_t>(expected.size());
  }
  EXPECT_EQ(num_tokens, Result().num_tokens());
  EXPECT_EQ(num_tokens, instances->num_tokens());
  EXPECT_EQ(instances->num_sequences(), Result().num_instances());
}

TEST_F(JobRunnerTest, FillsEveryInstanceButOne) {
  const auto instances = IndexedDataset::Open(Dataset() / "instances");
  ASSERT_TRUE(instances.ok());
  int shorter = 0;
  for (int64_t i = 0; i < instances->num_sequences(); ++i) {
    ASSERT_LE(instances->sequence_length(i), 129);
    shorter += instances->sequence_length(i) < 129 ? 1 : 0;
  }
  EXPECT_LE(shorter, 1);
}

TEST_F(JobRunnerTest, MapsInstancesToDocumentsAndBack) {
  const auto provenance = Provenance::Open(Dataset() / "provenance");
  ASSERT_TRUE(provenance.ok());
  EXPECT_EQ(provenance->num_instances(), Result().num_instances());
  for (uint32_t instance = 0; instance < 5; ++instance) {
    for (const ProvenanceSpan& span : provenance->Instance(instance)) {
      const std::string id(provenance->document_id(span.document));
      EXPECT_EQ(provenance->FindDocument(id), span.document);
      const auto back = provenance->Document(span.document);
      EXPECT_NE(std::find(back.begin(), back.end(), span), back.end());
    }
  }
  EXPECT_THAT(provenance->Document(Numbers("order", "heldout.npy")[0]), IsEmpty());
}

TEST_F(JobRunnerTest, WritesHeldOutWindowsOfADomainInSourceOrder) {
  const auto tokens = IndexedDataset::Open(finished_home().StageDirectory("tokenize") / "tokens");
  const auto names =
      nlohmann::json::parse(*ReadFile(finished_home().StageDirectory("ingest") / "domains.json"));
  const auto domains =
      NpyArray<int32_t>::Open(finished_home().StageDirectory("ingest") / "domains.npy");
  ASSERT_TRUE(tokens.ok() && domains.ok());
  EXPECT_EQ(DatasetJson()["domains"], names) << "each domain has held-out documents here";
  for (const std::string name : names) {
    std::vector<int32_t> expected;
    for (const uint32_t document : Numbers("order", "heldout.npy")) {
      if (names[static_cast<size_t>(domains->values()[document])] != name) continue;
      const std::vector<int32_t> own = tokens->Read(document);
      expected.insert(expected.end(), own.begin(), own.end());
      expected.push_back(2);
    }
    if (expected.size() % 129 == 1) expected.pop_back();
    const auto windows = IndexedDataset::Open(Dataset() / "heldout" / name);
    ASSERT_TRUE(windows.ok()) << windows.status();
    std::vector<int32_t> found;
    for (int64_t i = 0; i < windows->num_sequences(); ++i) {
      const std::vector<int32_t> window = windows->Read(i);
      found.insert(found.end(), window.begin(), window.end());
    }
    EXPECT_EQ(found, expected) << name;
  }
}

TEST_F(JobRunnerTest, ChoosesTheDimensionByTheNumberOfDocuments) {
  Home home;
  v1::CorpusSpec spec = Spec();
  spec.mutable_embedder()->clear_dimension();
  ASSERT_TRUE(home.Run(spec).ok());
  const auto embeddings = NpyArray<float>::Open(home.StageDirectory("embed") / "embeddings.npy");
  ASSERT_TRUE(embeddings.ok()) << embeddings.status();
  EXPECT_EQ(embeddings->row_size(), 512);
  EXPECT_EQ(AutomaticDimension(500'000), 512);
  EXPECT_EQ(AutomaticDimension(500'001), 256);
}

TEST_F(JobRunnerTest, DescribesTheDataset) {
  const nlohmann::json dataset = DatasetJson();
  EXPECT_EQ(dataset["sequence_length"], 128);
  EXPECT_EQ(dataset["eos_id"], 2);
  EXPECT_EQ(dataset["order"], "SIMILARITY");
  EXPECT_EQ(dataset["name"], "tiny.jsonl");
  EXPECT_EQ(dataset["num_instances"], Result().num_instances());
  EXPECT_EQ(dataset["num_tokens"], Result().num_tokens());
  const auto tokenizer = Tokenizer::Load(Dataset() / "tokenizer.model");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(dataset["vocab_size"], (*tokenizer)->vocab_size());
  const auto manifest = LoadVerifiedManifest(Dataset());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(dataset["key"], manifest->key);
  size_t num_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(Dataset())) {
    num_files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(num_files, manifest->files.size() + 1) << "every file but the manifest is listed";
}

TEST_F(JobRunnerTest, SummarizesTheDomainsOfTheRecords) {
  std::vector<std::string> names;
  int64_t num_documents = 0, num_tokens = 0, num_heldout = 0;
  for (const v1::DomainSummary& domain : Result().domains()) {
    names.push_back(domain.name());
    num_documents += domain.num_documents();
    num_tokens += domain.num_tokens();
    num_heldout += domain.num_heldout_documents();
    EXPECT_GT(domain.similarity(), 0.3);
    EXPECT_LT(domain.similarity(), 0.9);
  }
  EXPECT_EQ(names, std::vector<std::string>({"code", "law", "prose"}));
  EXPECT_EQ(num_documents, Result().num_documents());
  EXPECT_EQ(num_tokens, Result().num_tokens());
  EXPECT_EQ(num_heldout, Result().num_heldout());
}

TEST_F(JobRunnerTest, CountsHeldOutSourcesBeforeSplitting) {
  v1::CorpusSpec spec = Spec();
  spec.mutable_ingest()->set_split_bytes(100);
  Home home;
  const auto result = home.Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto documents = DocumentStore::Open(home.StageDirectory("ingest"));
  const auto heldout = NpyArray<uint32_t>::Open(home.StageDirectory("order") / "heldout.npy");
  ASSERT_TRUE(documents.ok() && heldout.ok());
  std::map<std::string, std::set<std::string>> sources;
  for (const uint32_t document : heldout->values()) {
    const auto domain = static_cast<size_t>(documents->domains()[document]);
    const std::string id(documents->id(document));
    sources[documents->domain_names()[domain]].insert(id.substr(0, id.find('#')));
  }
  int64_t num_sources = 0;
  for (const v1::DomainSummary& domain : result->domains()) {
    EXPECT_EQ(domain.num_heldout_sources(), static_cast<int64_t>(sources[domain.name()].size()));
    num_sources += domain.num_heldout_sources();
  }
  EXPECT_GT(num_sources, 0);
  EXPECT_GT(result->num_heldout(), 2 * num_sources) << "documents are cut into several";
}

TEST_F(JobRunnerTest, GroupsSimilarDocuments) {
  EXPECT_GT(Result().adjacent_cosine(), Result().random_adjacent_cosine() + 0.2);
  EXPECT_GT(Result().recall_at_k(), 0.99);
}

TEST_F(JobRunnerTest, UncutDocumentsAreSourcesWhateverTheirIds) {
  v1::CorpusSpec spec = Spec();
  const fs::path corpus = NewDirectory() / "issues.jsonl";
  std::ifstream from(spec.paths(0));
  std::ofstream to(corpus);
  int number = 0;
  for (std::string line; std::getline(from, line);) {
    nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) continue;
    record["id"] = "issues#" + std::to_string(++number);
    to << record << "\n";
  }
  to.close();
  spec.set_paths(0, corpus.string());
  const auto result = Home().Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->num_heldout(), 5);
  EXPECT_GT(result->num_documents(), result->num_heldout());
}

TEST_F(JobRunnerTest, HoldsOutNoDocumentOnRequest) {
  Home home(finished_home());
  v1::CorpusSpec spec = Spec();
  spec.mutable_pack()->set_heldout_fraction(0);
  spec.mutable_deduplicate()->set_disabled(true);
  const auto result = home.Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_heldout(), 0);
  EXPECT_EQ(result->num_duplicates(), 0);
  const auto dataset =
      nlohmann::json::parse(*ReadFile(fs::path(result->dataset_dir()) / "dataset.json"));
  EXPECT_EQ(dataset["domains"].size(), 0u);
}

TEST_F(JobRunnerTest, ReportsInvalidInput) {
  const auto message = [](const v1::CorpusSpec& spec) {
    const auto result = Home(finished_home()).Run(spec);
    EXPECT_FALSE(result.ok());
    return std::string(result.status().message());
  };
  v1::CorpusSpec spec = Spec();
  spec.set_paths(0, "/nowhere/at-all.jsonl");
  EXPECT_THAT(message(spec), AllOf(HasSubstr("ingest"), HasSubstr("/nowhere/at-all.jsonl")));

  spec = Spec();
  spec.mutable_ingest()->set_text_field("body");
  EXPECT_THAT(message(spec), AllOf(HasSubstr("body"), HasSubstr("text")));

  const fs::path empty = NewDirectory() / "empty.jsonl";
  std::ofstream(empty) << "{\"text\": \" \"}\n{\"text\"\n{\"text\": \"\"}\n";
  spec = Spec();
  spec.set_paths(0, empty.string());
  EXPECT_THAT(message(spec), AllOf(HasSubstr("3"), HasSubstr("empty"), HasSubstr("invalid json")));

  spec = Spec();
  spec.mutable_ingest()->set_strict(true);
  EXPECT_THAT(message(spec), AllOf(HasSubstr("tiny.jsonl, record at byte "), HasSubstr("strict")));

  spec = Spec();
  spec.mutable_pack()->set_sequence_length(1 << 20);
  EXPECT_THAT(message(spec), AllOf(HasSubstr("pack.sequence_length 1048576"),
                                   HasSubstr("got " + std::to_string(Result().num_tokens())),
                                   HasSubstr("1048577")));

  spec = Spec();
  spec.mutable_tokenizer()->Clear();
  spec.mutable_tokenizer()->set_model_path("/nowhere/t.model");
  EXPECT_THAT(message(spec), AllOf(HasSubstr("tokenize"), HasSubstr("/nowhere/t.model")));

  spec = Spec();
  spec.mutable_pack()->set_heldout_fraction(0.99999);
  EXPECT_THAT(message(spec), HasSubstr("pack.heldout_fraction"));
}

}  // namespace job_runner_test
}  // namespace braid
