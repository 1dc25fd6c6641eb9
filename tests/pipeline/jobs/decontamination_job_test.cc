#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "formats/contamination.h"
#include "formats/npy.h"
#include "pipeline/stages/decontamination.h"
#include "pipeline/stages/order_stage.h"
#include "pipeline/store/document_store.h"
#include "tests/pipeline/jobs/finished_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace decontamination_job_test {

namespace fs = std::filesystem;
using testing::Contains;
using testing::Not;

constexpr char kQuestion[] =
    "Which of these is heavier when it is wet: a sponge of ten grams or a stone?";

// The generated corpus with two more documents that quote an example, and task files.
class DecontaminationJobTest : public testing::Test {
 protected:
  DecontaminationJobTest() {
    WriteCorpus(corpus_);
    std::ofstream more(corpus_, std::ios::app);
    const auto leak = [&](const char* id, const std::string& before, const std::string& after) {
      more << nlohmann::json{{"id", id}, {"text", before + kQuestion + after}}.dump() << "\n";
    };
    leak("leak-0", "Our quiz of last week had ten questions, and this is the hardest one. ",
         " No one in the room knew it, so the prize goes to charity.");
    leak("leak-1", "Sponges are animals without organs; children learn it from riddles such as: ",
         "\nThe usual reply is wrong, because water weighs more than most people expect.");
    fs::create_directories(tasks_ / "quiz");
    std::ofstream(tasks_ / "quiz" / "test.jsonl")
        << "{\"question\": \"Is this one short?\"}\n"
        << nlohmann::json{{"question", kQuestion}, {"answer", "the stone"}}.dump() << "\n"
        << "{\"question\": \""
        << std::string("An example that no document of the corpus has ") +
               "although it is long enough to have some runs\"}\n";
  }

  v1::CorpusSpec Spec(bool report_only) const {
    v1::CorpusSpec spec = SmallSpec(corpus_);
    spec.mutable_decontaminate()->add_paths(tasks_.string());
    spec.mutable_decontaminate()->set_report_only(report_only);
    return spec;
  }

  static std::set<std::string> UsedIds(const Home& home) {
    const auto documents = DocumentStore::Open(home.StageDirectory("ingest"));
    const auto order = StoredOrder::Read(home.StageDirectory("order"));
    EXPECT_TRUE(documents.ok() && order.ok()) << order.status();
    std::set<std::string> ids;
    for (const uint32_t i : order->training.order) ids.emplace(documents->id(i));
    for (const uint32_t i : order->heldout) ids.emplace(documents->id(i));
    return ids;
  }

  const fs::path corpus_ = NewDirectory() / "corpus.jsonl";
  const fs::path tasks_ = NewDirectory();
};

TEST_F(DecontaminationJobTest, DropsDocumentsThatQuoteAnExample) {
  Home home;
  const auto result = home.Run(Spec(false));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_contaminated(), 2);
  EXPECT_EQ(result->num_documents_read(),
            result->num_rejected() + result->num_duplicates() + result->num_contaminated() +
                result->num_heldout() + result->num_heldout_overlaps() + result->num_documents());
  ASSERT_EQ(result->contamination_size(), 1);
  const v1::ContaminationSummary& file = result->contamination(0);
  EXPECT_EQ(file.file(), (tasks_ / "quiz" / "test.jsonl").string());
  EXPECT_EQ(file.num_texts(), 2);
  EXPECT_EQ(file.num_short_texts(), 2);
  EXPECT_EQ(file.num_matched_texts(), 1);
  EXPECT_EQ(file.num_matched_documents(), 2);
  EXPECT_THAT(UsedIds(home), Not(Contains("leak-0")));
  EXPECT_THAT(UsedIds(home), Not(Contains("leak-1")));

  const auto found = FindContaminated(home.StageDirectory("deduplicate"), "leak-1");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text, file.file() + ":2");
  EXPECT_EQ(found->words, "which of these is heavier when it is wet a sponge of ten");
  EXPECT_FALSE(FindContaminated(home.StageDirectory("deduplicate"), "doc-1").has_value());
  const auto contamination = ReadContamination(result->dataset_dir());
  ASSERT_TRUE(contamination.ok() && contamination->has_value()) << contamination.status();
  EXPECT_TRUE((*contamination)->runs.empty()) << "no document of the dataset has any";
  const auto summary = SummarizeFile(tasks_ / "quiz" / "test.jsonl");
  EXPECT_TRUE((*contamination)->Covers(summary->bytes, summary->crc32c));
  EXPECT_FALSE((*contamination)->Covers(summary->bytes, summary->crc32c + 1));
}

TEST_F(DecontaminationJobTest, OnlyCountsWithReportOnly) {
  Home home;
  const auto result = home.Run(Spec(true));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_contaminated(), 2);
  EXPECT_EQ(result->num_documents_read(),
            result->num_rejected() + result->num_duplicates() + result->num_heldout() +
                result->num_heldout_overlaps() + result->num_documents());
  const auto contamination = ReadContamination(result->dataset_dir());
  ASSERT_TRUE(contamination.ok() && contamination->has_value()) << contamination.status();
  EXPECT_TRUE((*contamination)->report_only);
  EXPECT_FALSE((*contamination)->IsClean(std::string("Question: ") + kQuestion));
  EXPECT_TRUE((*contamination)->IsClean("An example that no document of the corpus has although"));
}

TEST_F(DecontaminationJobTest, NamesTheSettingWhenNoDocumentIsLeft) {
  Home home;
  v1::CorpusSpec spec = SmallSpec(corpus_);
  // A line of the corpus is not JSON, which only a file of another type may have.
  const std::filesystem::path evaluation = corpus_.string() + ".txt";
  std::filesystem::copy_file(corpus_, evaluation);
  spec.mutable_decontaminate()->add_paths(evaluation.string());
  const absl::Status status = home.Run(spec).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("decontaminate.paths"));
}

TEST_F(DecontaminationJobTest, RunsAgainWhenTheEvaluationTextChanges) {
  Home home;
  ASSERT_TRUE(home.Run(Spec(false)).ok());
  ASSERT_TRUE(home.Run(Spec(false)).ok());
  EXPECT_THAT(home.made(), testing::IsEmpty());
  std::ofstream(tasks_ / "quiz" / "test.jsonl", std::ios::app) << "{}\n";
  ASSERT_TRUE(home.Run(Spec(false)).ok());
  EXPECT_THAT(home.made(), testing::ElementsAre("deduplicate", "order", "pack"));
}

TEST_F(DecontaminationJobTest, MinHashDoesNotDependOnTheNeighborLists) {
  std::vector<std::string> kept;
  for (const int k : {1, 12}) {
    Home home;
    v1::CorpusSpec spec = SmallSpec(corpus_);
    spec.mutable_neighbors()->set_k(k);
    spec.mutable_deduplicate()->set_near_duplicates("minhash");
    const auto result = home.Run(spec);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->num_near_duplicates(), 2);
    kept.push_back(*ReadFile(home.StageDirectory("deduplicate") / "keep.npy"));
  }
  EXPECT_EQ(kept[0], kept[1]);
}

}  // namespace decontamination_job_test
}  // namespace braid
