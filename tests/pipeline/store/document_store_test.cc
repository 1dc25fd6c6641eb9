#include "pipeline/store/document_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "pipeline/stages/tokenize_stage.h"
#include "pipeline/store/stage_key.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace document_store_test {

using testing::ElementsAre;

class DocumentStoreTest : public testing::Test {
 protected:
  void Write(const std::vector<std::vector<std::string>>& documents) {
    StageWriter stage(directory_, "ingest", StageKey("ingest", 1).Hex());
    auto writer = DocumentStoreWriter::Resume(directory_, {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const auto& document : documents) {
      ASSERT_TRUE(writer->Add(document[0], document[1], document[2]).ok());
    }
    ASSERT_TRUE(writer->Commit(&stage).ok());
  }
  DocumentStore Open() {
    auto store = DocumentStore::Open(directory_);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  const std::filesystem::path directory_ = NewDirectory();
};

TEST_F(DocumentStoreTest, RoundTripsTextsIdsAndSortedDomains) {
  Write({{"a", "first", "web"}, {"", "", "books"}, {"c", "thi\nrd", "web"}});
  const DocumentStore store = Open();
  ASSERT_EQ(store.size(), 3);
  EXPECT_EQ(store.text(0), "first");
  EXPECT_EQ(store.text(1), "");
  EXPECT_EQ(store.text(2), "thi\nrd");
  EXPECT_EQ(store.id(2), "c");
  EXPECT_EQ(store.num_text_bytes(), 11);
  EXPECT_THAT(store.domain_names(), ElementsAre("books", "web"));
  EXPECT_THAT(store.domains(), ElementsAre(1, 0, 1));
}

TEST_F(DocumentStoreTest, LimitsChunksByBytesAndByDocuments) {
  Write({{"a", "1234", "d"}, {"b", "123456789", "d"}, {"c", "1", "d"}, {"d", "12", "d"}});
  const DocumentStore store = Open();
  EXPECT_EQ(store.ChunkEnd(0, 5, 100), 1);
  EXPECT_EQ(store.ChunkEnd(0, 13, 100), 2);
  EXPECT_EQ(store.ChunkEnd(1, 5, 100), 2) << "at least one document";
  EXPECT_EQ(store.ChunkEnd(0, 1000, 100), 4);
  EXPECT_EQ(store.ChunkEnd(0, 1000, 3), 3);
  EXPECT_THAT(store.Texts(2, 4), ElementsAre("1", "12"));
}

// Chunks of three documents or 12 bytes: [0, 3), [3, 5), [5, 8), [8, 9).
TEST_F(DocumentStoreTest, ChunksDoNotDependOnHowManyAreTakenAtATime) {
  Write({{"a", "1", "d"},
         {"b", "1", "d"},
         {"c", "1", "d"},
         {"d", "123456", "d"},
         {"e", "123456", "d"},
         {"f", "1", "d"},
         {"g", "1", "d"},
         {"h", "1", "d"},
         {"i", "1", "d"}});
  const DocumentStore store = Open();
  const auto ends = [&](int64_t max_documents) {
    std::vector<int64_t> found;
    for (int64_t begin = 0; begin < store.size(); begin = found.back()) {
      found.push_back(store.ChunksEnd(begin, 12, 3, max_documents));
    }
    return found;
  };
  EXPECT_THAT(ends(3), ElementsAre(3, 5, 8, 9));
  EXPECT_THAT(ends(6), ElementsAre(5, 9)) << "the short chunk is the last one";
  EXPECT_THAT(ends(9), ElementsAre(5, 9));
}

TEST_F(DocumentStoreTest, RefusesInconsistentFiles) {
  Write({{"a", "text", "d"}});
  std::ofstream(directory_ / "texts.bin", std::ios::app) << "more";
  const auto store = DocumentStore::Open(directory_);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
}

TEST(TokenizeTest, VocabularyFollowsTheSizeOfTheSample) {
  EXPECT_EQ(AutomaticVocabSize(0), 512);
  EXPECT_EQ(AutomaticVocabSize(512 * 256 - 1), 512);
  EXPECT_EQ(AutomaticVocabSize(2 << 20), 8192);
  EXPECT_EQ(AutomaticVocabSize((4 << 20) - 1), 8192);
  EXPECT_EQ(AutomaticVocabSize(int64_t{1} << 40), 32000);
}

TEST_F(DocumentStoreTest, SamplesUpToTheRequestedBytes) {
  std::vector<std::vector<std::string>> documents;
  for (int i = 0; i < 100; ++i) documents.push_back({std::to_string(i), "0123456789", "d"});
  Write(documents);
  const DocumentStore store = Open();
  const auto sample = SampleDocuments(store, 95, 1);
  EXPECT_EQ(sample.size(), 10u);
  EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
  EXPECT_EQ(sample, SampleDocuments(store, 95, 1));
  EXPECT_NE(sample, SampleDocuments(store, 95, 2));
  EXPECT_EQ(SampleDocuments(store, 1000000, 1).size(), 100u);
}

}  // namespace document_store_test
}  // namespace braid
