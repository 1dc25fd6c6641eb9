#include "pipeline/stages/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "tests/pipeline/ordering/shuffled_spans.h"

namespace braid {
namespace provenance_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ProvenanceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 (std::string(test->name()) + "." + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  Provenance WriteAndOpen(std::span<const ProvenanceSpan> spans, std::span<const std::string> ids) {
    const auto files = WriteProvenance(directory_, spans, ids);
    EXPECT_TRUE(files.ok()) << files.status();
    auto provenance = Provenance::Open(directory_);
    EXPECT_TRUE(provenance.ok()) << provenance.status();
    return *std::move(provenance);
  }

  std::filesystem::path directory_;
};

TEST_F(ProvenanceTest, MapsInBothDirections) {
  const std::vector<ProvenanceSpan> spans = {
      {2, 0, 1, 0, 7}, {0, 0, 0, 0, 5}, {2, 7, 0, 5, 2}, {1, 0, 1, 7, 3}};
  const std::vector<std::string> ids = {"b", "", "a/x.txt:17", "unused\nid"};
  const Provenance provenance = WriteAndOpen(spans, ids);
  EXPECT_EQ(provenance.num_documents(), 4);
  EXPECT_EQ(provenance.num_instances(), 2);
  EXPECT_EQ(provenance.num_spans(), 4);
  EXPECT_THAT(provenance.Instance(0), ElementsAre(spans[1], spans[2]));
  EXPECT_THAT(provenance.Instance(1), ElementsAre(spans[0], spans[3]));
  EXPECT_THAT(provenance.Instance(2), IsEmpty());
  EXPECT_THAT(provenance.Document(2), ElementsAre(spans[0], spans[2]));
  EXPECT_THAT(provenance.Document(3), IsEmpty());
  EXPECT_THAT(provenance.Document(99), IsEmpty());
  EXPECT_EQ(provenance.document_id(3), "unused\nid");
  EXPECT_EQ(provenance.FindDocument(""), 1u);
  EXPECT_EQ(provenance.FindDocument("a/x.txt:17"), 2u);
  EXPECT_EQ(provenance.FindDocument("zzz"), std::nullopt);
  EXPECT_EQ(provenance.FindDocument("a"), std::nullopt);
}

TEST_F(ProvenanceTest, HoldsAnEmptyDataset) {
  const Provenance provenance = WriteAndOpen({}, {});
  EXPECT_EQ(provenance.num_documents(), 0);
  EXPECT_EQ(provenance.num_instances(), 0);
  EXPECT_THAT(provenance.Instance(0), IsEmpty());
  EXPECT_EQ(provenance.FindDocument("x"), std::nullopt);
}

TEST_F(ProvenanceTest, FindsWhatALinearSearchFinds) {
  std::mt19937_64 random(9);
  std::vector<std::string> ids;
  std::vector<std::vector<int32_t>> documents(60);
  for (size_t i = 0; i < documents.size(); ++i) {
    documents[i].assign(random() % 50, 5);
    ids.push_back("doc-" + std::to_string(random() % 1000000));
  }
  std::vector<ProvenanceSpan> spans;
  Packer packer(16, 2, [&](auto, auto packed) {
    spans.insert(spans.end(), packed.begin(), packed.end());
    return absl::OkStatus();
  });
  for (uint32_t i = 0; i < documents.size(); ++i) ASSERT_TRUE(packer.Add(i, documents[i]).ok());
  ASSERT_TRUE(packer.Finish().ok());
  spans = ShuffleSpans(spans, InstanceShuffle(packer.num_instances(), 1));
  const Provenance provenance = WriteAndOpen(spans, ids);
  EXPECT_EQ(provenance.num_instances(), packer.num_instances());
  for (uint32_t i = 0; i < packer.num_instances(); ++i) {
    std::vector<ProvenanceSpan> expected;
    for (const ProvenanceSpan& span : spans) {
      if (span.instance == i) expected.push_back(span);
    }
    EXPECT_EQ(provenance.Instance(i), expected);
  }
  for (uint32_t i = 0; i < documents.size(); ++i) {
    std::vector<ProvenanceSpan> expected;
    for (const ProvenanceSpan& span : spans) {
      if (span.document == i) expected.push_back(span);
    }
    std::sort(expected.begin(), expected.end(),
              [](const auto& a, const auto& b) { return a.document_offset < b.document_offset; });
    EXPECT_EQ(provenance.Document(i), expected);
    const auto first = std::find(ids.begin(), ids.end(), ids[i]);
    EXPECT_EQ(provenance.FindDocument(ids[i]), first - ids.begin());
  }
}

TEST_F(ProvenanceTest, NamesAMissingFile) {
  const auto provenance = Provenance::Open(directory_);
  EXPECT_EQ(provenance.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(provenance.status().message(), HasSubstr("spans.npy"));
}

TEST_F(ProvenanceTest, RefusesTablesOfDifferentDatasets) {
  const std::vector<ProvenanceSpan> spans = {{0, 0, 0, 0, 5}, {1, 0, 0, 5, 2}};
  const std::vector<std::string> two = {"a", "b"}, one = {"a"};
  WriteAndOpen(spans, two);
  std::filesystem::rename(directory_ / "spans.npy", directory_ / "kept");
  ASSERT_TRUE(WriteProvenance(directory_, {}, one).ok());
  std::filesystem::rename(directory_ / "kept", directory_ / "spans.npy");
  const auto provenance = Provenance::Open(directory_);
  EXPECT_EQ(provenance.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(provenance.status().message(), HasSubstr("spans_by_document.npy"));
}

TEST_F(ProvenanceTest, RefusesTablesWithoutColumnsAndDescendingOffsets) {
  const std::vector<ProvenanceSpan> spans = {{0, 0, 0, 0, 5}, {1, 0, 0, 5, 2}};
  const std::vector<std::string> ids = {"a", "b"};
  const auto message_after = [&](const char* file, std::vector<int64_t> shape,
                                 const std::vector<int64_t>& values) {
    EXPECT_TRUE(WriteProvenance(directory_, spans, ids).ok());
    EXPECT_TRUE(WriteNpy<int64_t>(directory_ / file, shape, values).ok());
    return std::string(Provenance::Open(directory_).status().message());
  };
  EXPECT_THAT(message_after("id_offsets.npy", {3, 0}, {}), HasSubstr("id_offsets.npy"));
  EXPECT_THAT(message_after("spans_by_document.npy", {2, 0}, {}), HasSubstr("number of columns"));
  EXPECT_THAT(message_after("id_offsets.npy", {3}, {0, INT64_MIN, 4}), HasSubstr("id_offsets.npy"));
}

TEST_F(ProvenanceTest, RefusesADocumentThatHasNoId) {
  const std::vector<ProvenanceSpan> spans = {{1, 0, 0, 0, 5}};
  const std::vector<std::string> two = {"a", "b"}, one = {"a"};
  ASSERT_TRUE(WriteProvenance(directory_, {}, one).ok());
  std::filesystem::path other = directory_ / "other";
  std::filesystem::create_directories(other);
  ASSERT_TRUE(WriteProvenance(other, spans, two).ok());
  for (const char* name : {"spans.npy", "spans_by_document.npy"}) {
    std::filesystem::rename(other / name, directory_ / name);
  }
  const auto provenance = Provenance::Open(directory_);
  EXPECT_EQ(provenance.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(provenance.status().message(), HasSubstr("document in row 0"));
}

}  // namespace provenance_test
}  // namespace braid
