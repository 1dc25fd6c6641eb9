// Jobs with ingest.where and with vectors that the corpus brings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "formats/npy.h"
#include "pipeline/store/document_store.h"
#include "tests/base/status_matchers.h"
#include "tests/pipeline/jobs/finished_job.h"

namespace braid {
namespace corpus_vectors_job_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;

class CorpusVectorsJobTest : public FinishedJobTest {
 protected:
  // Writes the documents of the finished job with their vectors, times a factor, and their numbers.
  static fs::path WriteVectors() {
    const fs::path path = NewDirectory() / "vectors.jsonl";
    const auto documents = DocumentStore::Open(finished_home().StageDirectory("ingest")).value();
    const auto vectors =
        NpyArray<float>::Open(finished_home().StageDirectory("embed") / "embeddings.npy").value();
    std::ofstream out(path);
    for (int64_t i = 0; i < documents.size(); ++i) {
      const std::string domain = documents.domain_names()[static_cast<size_t>(documents.domain(i))];
      std::vector<double> vector;
      for (const float x : vectors.row(i)) vector.push_back(4 * double{x});
      out << json{{"id", documents.id(i)},
                  {"text", documents.text(i)},
                  {"domain", domain},
                  {"vector", vector},
                  {"number", i}}
                 .dump()
          << "\n";
    }
    out << json{{"id", "bad"}, {"text", "no vector"}, {"number", -1}}.dump() << "\n";
    return path;
  }

  static v1::CorpusSpec VectorSpec(const fs::path& path) {
    v1::CorpusSpec spec = SmallSpec(path);
    spec.mutable_embedder()->Clear();
    spec.mutable_ingest()->set_embedding_field("vector");
    return spec;
  }
};

TEST_F(CorpusVectorsJobTest, GivesTheNeighborsAndOrderOfTheSameVectorsEmbedded) {
  Home home;
  ASSERT_OK_AND_ASSIGN(const v1::JobResult result, home.Run(VectorSpec(WriteVectors())));
  EXPECT_EQ(result.num_rejected(), 1);
  EXPECT_EQ(result.rejects(0).reason(), "missing embedding");
  EXPECT_EQ(result.num_documents(), Result().num_documents());
  const auto bytes = [](const Home& in, const char* stage, const char* file) {
    return *ReadFile(in.StageDirectory(stage) / file);
  };
  EXPECT_EQ(bytes(home, "neighbors", "neighbors.npy"),
            bytes(finished_home(), "neighbors", "neighbors.npy"));
  EXPECT_EQ(bytes(home, "order", "order.npy"), bytes(finished_home(), "order", "order.npy"));
  ASSERT_OK_AND_ASSIGN(const auto stored,
                       NpyArray<float>::Open(home.StageDirectory("embed") / "embeddings.npy"));
  ASSERT_OK_AND_ASSIGN(
      const auto expected,
      NpyArray<float>::Open(finished_home().StageDirectory("embed") / "embeddings.npy"));
  ASSERT_EQ(stored.values().size(), expected.values().size());
  for (size_t i = 0; i < expected.values().size(); ++i) {
    ASSERT_NEAR(stored.values()[i], expected.values()[i], 1e-6) << i;
  }
}

TEST_F(CorpusVectorsJobTest, CountsFilteredRecordsAndIsAnotherJobForAnotherFilter) {
  Home home;
  v1::CorpusSpec spec = VectorSpec(WriteVectors());
  spec.mutable_ingest()->set_where("number >= 100 and domain != 'law'");
  ASSERT_OK_AND_ASSIGN(const v1::JobResult result, home.Run(spec));
  EXPECT_GT(result.num_filtered(), 100);
  EXPECT_EQ(result.num_rejected(), 0) << "the record without a vector is filtered";
  EXPECT_EQ(result.num_documents_read(), result.num_filtered() + result.num_duplicates() +
                                             result.num_heldout() + result.num_heldout_overlaps() +
                                             result.num_documents());
  for (const v1::DomainSummary& domain : result.domains()) EXPECT_NE(domain.name(), "law");
  ASSERT_OK_AND_ASSIGN(const v1::JobResult again, home.Run(spec));
  EXPECT_EQ(again.num_filtered(), result.num_filtered());
  EXPECT_TRUE(home.made().empty());
  spec.mutable_ingest()->set_where("number >= 50 and domain != 'law'");
  ASSERT_OK_AND_ASSIGN(const v1::JobResult other, home.Run(spec));
  EXPECT_EQ(home.made().front(), "ingest");
  EXPECT_LT(other.num_filtered(), result.num_filtered());
}

}  // namespace corpus_vectors_job_test
}  // namespace braid
