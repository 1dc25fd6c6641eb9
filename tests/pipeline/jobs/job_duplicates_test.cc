#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "formats/npy.h"
#include "formats/word_runs.h"
#include "pipeline/ordering/deduplicate.h"
#include "pipeline/ordering/heldout_split.h"
#include "pipeline/stages/deduplicate_stage.h"
#include "pipeline/stages/order_stage.h"
#include "pipeline/store/document_store.h"
#include "tests/pipeline/jobs/finished_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace job_duplicates_test {

namespace fs = std::filesystem;

class JobDuplicatesTest : public FinishedJobTest {};

// Groups of near-copies that are larger than the neighbor lists, of several planted kinds.
std::vector<std::string> PlantedTexts(std::mt19937_64* random) {
  const auto sentence = [&] {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      for (int letter = 0; letter < 5; ++letter) text += char('a' + (*random)() % 26);
      text += ' ';
    }
    return text;
  };
  std::vector<std::string> texts;
  for (int group = 0; group < 60; ++group) {
    std::string text = sentence();
    texts.push_back(text);
    for (int copy = 0; copy < 5; ++copy) {
      // A chain: each copy is an edit of the one before it.
      for (int edit = 0; edit < 2; ++edit) text[(*random)() % text.size()] = 'x';
      texts.push_back(text);
    }
    // Equal after normalization.
    std::string shouted = "-- " + texts[texts.size() - 6] + "!";
    for (char& c : shouted) c = static_cast<char>(std::toupper(c));
    texts.push_back(shouted);
  }
  return texts;
}

double Cosine(const NpyArray<float>& embeddings, uint32_t a, uint32_t b) {
  double product = 0, x_square = 0, y_square = 0;
  for (int64_t i = 0; i < embeddings.row_size(); ++i) {
    const double x = embeddings.row(a)[i], y = embeddings.row(b)[i];
    product += x * y;
    x_square += x * x;
    y_square += y * y;
  }
  return product / std::sqrt(x_square * y_square);
}

TEST_F(JobDuplicatesTest, SharesNoNearDuplicateBetweenTrainingAndHeldOut) {
  std::mt19937_64 random(9);
  const std::vector<std::string> texts = PlantedTexts(&random);
  const fs::path corpus = NewDirectory() / "planted.jsonl";
  std::ofstream file(corpus);
  for (size_t i = 0; i < texts.size(); ++i) {
    file << nlohmann::json{{"id", "doc-" + std::to_string(i)}, {"text", texts[i]}}.dump() << "\n";
  }
  file.close();
  Home home;
  v1::CorpusSpec spec = SmallSpec(corpus);
  // With lists of one neighbor, deduplication misses many pairs.
  spec.mutable_neighbors()->set_k(1);
  spec.mutable_pack()->set_heldout_fraction(0.3);
  const auto result = home.Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();

  EXPECT_EQ(result->num_duplicates(),
            result->num_exact_duplicates() + result->num_near_duplicates());
  EXPECT_GE(result->num_exact_duplicates() + result->num_near_duplicates(), 60 + 60);
  EXPECT_GT(result->num_heldout_overlaps(), 0) << "the test needs overlaps";
  EXPECT_EQ(result->num_documents_read(),
            result->num_rejected() + result->num_duplicates() + result->num_heldout() +
                result->num_heldout_overlaps() + result->num_documents());

  const auto documents = DocumentStore::Open(home.StageDirectory("ingest"));
  const auto order = StoredOrder::Read(home.StageDirectory("order"));
  ASSERT_TRUE(documents.ok() && order.ok()) << order.status();
  std::vector<std::vector<uint64_t>> grams;
  for (int64_t i = 0; i < documents->size(); ++i) {
    grams.push_back(CharacterNgrams(NormalizeText(documents->text(i))));
  }
  for (const uint32_t heldout : order->heldout) {
    for (const uint32_t training : order->training.order) {
      ASSERT_LT(Jaccard(grams[heldout], grams[training]), 0.8)
          << documents->id(heldout) << " and " << documents->id(training);
    }
  }
  const auto embeddings = NpyArray<float>::Open(home.StageDirectory("embed") / "embeddings.npy");
  ASSERT_TRUE(embeddings.ok()) << embeddings.status();
  for (const HeldoutOverlap& overlap : order->overlaps) {
    EXPECT_NEAR(overlap.cosine, Cosine(*embeddings, overlap.document, overlap.heldout), 1e-6);
    EXPECT_EQ(overlap.jaccard,
              static_cast<float>(Jaccard(grams[overlap.document], grams[overlap.heldout])));
  }
  const auto report =
      nlohmann::json::parse(*ReadFile(home.StageDirectory("order") / "heldout_overlaps.json"));
  EXPECT_EQ(report["num_overlaps"], result->num_heldout_overlaps());
  EXPECT_EQ(report["num_heldout"], result->num_heldout());
}

// The embeddings of texts that are equal only after normalization differ.
TEST_F(JobDuplicatesTest, StoresTheCosineOfTheEmbeddings) {
  const std::string text = "alpha beta gamma delta epsilon zeta eta theta iota kappa ";
  const fs::path corpus = NewDirectory() / "hyphens.jsonl";
  std::ofstream file(corpus);
  const auto add = [&](const std::string& id, const std::string& content) {
    file << nlohmann::json{{"id", id}, {"text", content}}.dump() << "\n";
  };
  std::mt19937_64 random(4);
  add("original", text + text + "well known");
  add("copy", text + text + "well-known");
  add("joined", text + text + "wellknown");
  for (int i = 0; i < 40; ++i) {
    std::string other;
    for (int word = 0; word < 30; ++word) other += std::to_string(random() % 1000) + " ";
    add("other-" + std::to_string(i), other);
  }
  file.close();
  Home home;
  v1::CorpusSpec spec = SmallSpec(corpus);
  spec.mutable_tokenizer()->set_vocab_size(300);
  const auto result = home.Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  const auto stored = StoredDuplicates::Open(home.StageDirectory("deduplicate"));
  const auto embeddings = NpyArray<float>::Open(home.StageDirectory("embed") / "embeddings.npy");
  ASSERT_TRUE(stored.ok() && embeddings.ok());
  const auto pair = stored->Find(2);
  ASSERT_TRUE(pair.has_value());
  EXPECT_TRUE(pair->exact) << "both are \"wellknown\" without punctuation";
  const double cosine = Cosine(*embeddings, pair->removed, pair->kept);
  EXPECT_LT(cosine, 0.999);
  EXPECT_NEAR(pair->cosine, cosine, 1e-6);
}

// Words that are unlike those of any other text with the same random numbers.
std::string RandomWords(int count, std::mt19937_64* random) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "word" + std::to_string((*random)() % 100000) + " ";
  return text;
}

// Returns the share of the 13-word runs of a text that `training` has, by comparing strings.
std::pair<int64_t, int64_t> SharedRuns(const std::string& text,
                                       const std::set<std::string>& training) {
  int64_t runs = 0, shared = 0;
  for (WordRuns run(NormalizeText(text)); run.Next(); ++runs) {
    shared += training.contains(std::string(run.text())) ? 1 : 0;
  }
  return {runs, shared};
}

TEST_F(JobDuplicatesTest, TrainsOnNoDocumentMadeOfHeldOutTextAndAsMuchOtherText) {
  std::mt19937_64 random(21);
  Home home;
  const fs::path corpus = NewDirectory() / "planted.jsonl";
  v1::CorpusSpec spec = SmallSpec(corpus);
  std::ofstream file(corpus);
  const auto write = [&](const std::string& id, const std::string& text) {
    file << nlohmann::json{{"id", id}, {"text", text}}.dump() << "\n";
  };
  std::vector<std::string> heldout;
  for (int i = 0; i < 400; ++i) {
    const std::string id = "doc-" + std::to_string(i), text = RandomWords(60, &random);
    write(id, text);
    if (IsHeldOut(id, spec.seed(), 0.2)) heldout.push_back(text);
  }
  ASSERT_GE(heldout.size(), 20u);
  // Held-out text first, last or in the middle of other text; and a quotation, which is residue.
  std::vector<std::string> planted;
  for (int i = 0; planted.size() < 20; ++i) {
    const std::string id = "planted-" + std::to_string(i);
    if (IsHeldOut(id, spec.seed(), 0.2)) continue;
    const int before = i % 3 * 30;
    write(id, RandomWords(before, &random) + heldout[planted.size()] +
                  RandomWords(60 - before, &random));
    planted.push_back(id);
  }
  const std::string& quoted = heldout.back();
  for (int i = 0; i < 3; ++i) {
    write("quotation-" + std::to_string(i),
          RandomWords(80, &random) + quoted.substr(quoted.size() * i / 3, quoted.size() / 3));
  }
  file.close();
  spec.mutable_pack()->set_heldout_fraction(0.2);
  spec.mutable_tokenizer()->set_vocab_size(280);
  const auto result = home.Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();

  const auto documents = DocumentStore::Open(home.StageDirectory("ingest"));
  const auto order = StoredOrder::Read(home.StageDirectory("order"));
  ASSERT_TRUE(documents.ok() && order.ok()) << order.status();
  std::set<std::string> training;
  for (const uint32_t i : order->training.order) {
    EXPECT_FALSE(documents->id(i).starts_with("planted-")) << documents->id(i);
    for (WordRuns run(NormalizeText(documents->text(i))); run.Next();) {
      training.emplace(run.text());
    }
  }
  EXPECT_GE(result->num_heldout_contained(), 18) << "the cosine may find some";
  EXPECT_EQ(result->num_documents_read(),
            result->num_heldout() + result->num_documents() + result->num_heldout_overlaps());
  // The reported residue is that of comparing all runs.
  int64_t all = 0, all_shared = 0, mostly = 0;
  for (size_t i = 0; i < order->heldout.size(); ++i) {
    const auto [runs, shared] =
        SharedRuns(std::string(documents->text(order->heldout[i])), training);
    EXPECT_EQ(order->heldout_runs[i].num_runs, runs);
    EXPECT_EQ(order->heldout_runs[i].num_shared, shared);
    all += runs;
    all_shared += shared;
    mostly += 2 * shared > runs ? 1 : 0;
  }
  EXPECT_GT(all_shared, 0) << "the test needs residue";
  EXPECT_EQ(result->num_heldout_mostly_shared(), mostly);
  EXPECT_EQ(result->heldout_shared_runs(),
            static_cast<double>(all_shared) / static_cast<double>(all));
  const auto report =
      nlohmann::json::parse(*ReadFile(home.StageDirectory("order") / "heldout_overlaps.json"));
  EXPECT_EQ(report["num_by_containment"], result->num_heldout_contained());
  EXPECT_EQ(report["shared_runs"]["num_shared"], all_shared);
}

TEST_F(JobDuplicatesTest, ReportsEveryDuplicate) {
  const auto report = nlohmann::json::parse(
      *ReadFile(finished_home().StageDirectory("deduplicate") / "duplicates.json"));
  EXPECT_EQ(report["num_removed"], GeneratedCorpus::kDuplicates);
  EXPECT_EQ(report["num_exact"], 2);
  EXPECT_EQ(report["num_near"], 2);
  EXPECT_EQ(report["domains"]["prose"]["num_exact"], 2);
  EXPECT_EQ(report["domains"]["prose"]["num_near"], 2);
  EXPECT_EQ(report["domains"]["law"]["share"], 0.0);
  EXPECT_EQ(report["examples"][0]["removed"], "copy-0");
  EXPECT_EQ(report["examples"][0]["kept"], "doc-0");
  const auto stored = StoredDuplicates::Open(finished_home().StageDirectory("deduplicate"));
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->num_exact(), 2);
  EXPECT_EQ(stored->num_near(), 2);
  for (uint32_t i = 0; i < GeneratedCorpus::kUnique; ++i) EXPECT_FALSE(stored->Find(i).has_value());
  const auto pair = stored->Find(GeneratedCorpus::kUnique + 3);
  ASSERT_TRUE(pair.has_value());
  EXPECT_EQ(pair->kept, 27u);
  EXPECT_FALSE(pair->exact);
  EXPECT_GE(pair->jaccard, 0.8);
  EXPECT_GE(pair->cosine, 0.9);
}

}  // namespace job_duplicates_test
}  // namespace braid
