#include "formats/indexed_dataset.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace indexed_dataset_test {

using absl::StatusCode;
using Sequences = std::vector<std::vector<int32_t>>;

// Two documents of 3 and 2 int32 tokens, as Megatron-LM writes them.
const std::string kReferenceIndex = FromHex(
    "4d4d494449445800000100000000000000040200000000000000030000000000000003000000020000000000000000"
    "0000000c00000000000000000000000000000001000000000000000200000000000000");

Sequences ReadAll(const IndexedDataset& dataset) {
  Sequences sequences;
  for (int64_t i = 0; i < dataset.num_sequences(); ++i) sequences.push_back(dataset.Read(i));
  return sequences;
}

class IndexedDatasetTest : public testing::Test {
 protected:
  std::filesystem::path prefix() const { return scratch_ / "data.v1"; }

  // One document per sequence.
  void Write(const Sequences& sequences, int64_t vocab_size) {
    ASSERT_OK_AND_ASSIGN(auto writer, IndexedDatasetWriter::Create(prefix(), vocab_size));
    for (const auto& sequence : sequences) {
      ASSERT_OK(writer->AddSequence(sequence));
      writer->EndDocument();
    }
    ASSERT_OK_AND_ASSIGN(files_, writer->Commit());
  }
  // Overwrites an integer of the index.
  template <class T>
  void Patch(int64_t offset, T value) {
    std::string index = GetFile(IndexPath(prefix()));
    std::memcpy(index.data() + offset, &value, sizeof(T));
    PutFile(IndexPath(prefix()), index);
  }

  ScratchDirectory scratch_;
  std::vector<FileSummary> files_;
};

TEST_F(IndexedDatasetTest, WritesTheReferenceBytes) {
  Write({{1, 2, 70000}, {4, 5}}, 100000);
  EXPECT_EQ(GetFile(scratch_ / "data.v1.idx"), kReferenceIndex);
  EXPECT_EQ(GetFile(scratch_ / "data.v1.bin"), FromHex("0100000002000000701101000400000005000000"));
  EXPECT_EQ(files_[0].name, "data.v1.bin");
  EXPECT_EQ(files_[1].name, "data.v1.idx");
  EXPECT_EQ(files_[1].crc32c, Crc32c(kReferenceIndex));
  ASSERT_OK_AND_ASSIGN(auto dataset, IndexedDataset::Open(prefix()));
  EXPECT_EQ(ReadAll(dataset), (Sequences{{1, 2, 70000}, {4, 5}}));
}

TEST_F(IndexedDatasetTest, ChoosesTheTypeByVocabularySize) {
  Write({{65498}}, 65499);
  EXPECT_EQ(GetFile(TokensPath(prefix())), FromHex("daff"));
  ASSERT_OK_AND_ASSIGN(auto small, IndexedDataset::Open(prefix()));
  EXPECT_EQ(small.token_type(), TokenType::kUint16);
  EXPECT_EQ(small.Read(0), std::vector<int32_t>{65498});
  Write({{65499}}, 65500);
  ASSERT_OK_AND_ASSIGN(auto large, IndexedDataset::Open(prefix()));
  EXPECT_EQ(large.token_type(), TokenType::kInt32);
}

TEST_F(IndexedDatasetTest, RoundTripsRandomData) {
  std::mt19937_64 random(11);
  for (const int64_t vocab_size : {300, 32000, 65500, 128000}) {
    ASSERT_OK_AND_ASSIGN(auto writer, IndexedDatasetWriter::Create(prefix(), vocab_size));
    Sequences expected;
    std::vector<int64_t> document_begins = {0};
    int64_t num_tokens = 0;
    for (int document = 0; document < 50; ++document) {
      for (int i = random() % 4; i > 0; --i) {
        auto& sequence = expected.emplace_back(random() % 200);
        for (int32_t& token : sequence) token = static_cast<int32_t>(random() % vocab_size);
        ASSERT_OK(writer->AddSequence(sequence));
        num_tokens += static_cast<int64_t>(sequence.size());
      }
      writer->EndDocument();
      document_begins.push_back(static_cast<int64_t>(expected.size()));
    }
    EXPECT_EQ(writer->num_tokens(), num_tokens);
    ASSERT_OK(writer->Commit());
    ASSERT_OK_AND_ASSIGN(auto dataset, IndexedDataset::Open(prefix()));
    EXPECT_EQ(ReadAll(dataset), expected);
    EXPECT_EQ(dataset.num_tokens(), num_tokens);
    ASSERT_EQ(dataset.num_documents(), 50);
    for (int64_t i = 0; i <= 50; ++i) EXPECT_EQ(dataset.document_begin(i), document_begins[i]);
  }
}

TEST_F(IndexedDatasetTest, KeepsAnEmptyDataset) {
  Write({}, 100);
  ASSERT_OK_AND_ASSIGN(auto dataset, IndexedDataset::Open(prefix()));
  EXPECT_EQ(dataset.num_sequences(), 0);
  EXPECT_EQ(dataset.num_documents(), 0);
  EXPECT_EQ(dataset.num_tokens(), 0);
}

TEST_F(IndexedDatasetTest, CommitEndsAnOpenDocument) {
  ASSERT_OK_AND_ASSIGN(auto writer, IndexedDatasetWriter::Create(prefix(), 100));
  ASSERT_OK(writer->AddSequence(std::vector<int32_t>{1}));
  ASSERT_OK(writer->AddSequence(std::vector<int32_t>{2, 3}));
  ASSERT_OK(writer->Commit());
  ASSERT_OK_AND_ASSIGN(auto dataset, IndexedDataset::Open(prefix()));
  EXPECT_EQ(dataset.num_documents(), 1);
  EXPECT_EQ(dataset.document_begin(1), 2);
}

TEST_F(IndexedDatasetTest, ReadsEveryIntegerTypeAndModes) {
  const std::vector<std::pair<TokenType, std::string>> cases = {
      {TokenType::kUint8, "01fe02fd03"},
      {TokenType::kInt8, "01fe02fd03"},
      {TokenType::kInt16, "0100feff0200fdff0300"},
      {TokenType::kUint16, "0100feff0200fdff0300"}};
  const std::vector<std::vector<int32_t>> first = {
      {1, 254, 2}, {1, -2, 2}, {1, -2, 2}, {1, 65534, 2}};
  for (size_t i = 0; i < cases.size(); ++i) {
    PutFile(IndexPath(prefix()), kReferenceIndex + std::string(2, '\0'));  // two modes
    PutFile(TokensPath(prefix()), FromHex(cases[i].second));
    Patch<uint8_t>(17, static_cast<uint8_t>(cases[i].first));
    Patch<int64_t>(50, 3 * static_cast<int64_t>(cases[i].second.size()) / 10);
    ASSERT_OK_AND_ASSIGN(auto dataset, IndexedDataset::Open(prefix()));
    EXPECT_EQ(dataset.Read(0), first[i]);
  }
}

TEST_F(IndexedDatasetTest, RejectsTokensOutsideTheVocabulary) {
  ASSERT_OK_AND_ASSIGN(auto writer, IndexedDatasetWriter::Create(prefix(), 100));
  EXPECT_FAILS(writer->AddSequence(std::vector<int32_t>{1, 100}), StatusCode::kInvalidArgument,
               "sequence 0, token 1", "got 100", "0 to 99");
  EXPECT_FAILS(writer->AddSequence(std::vector<int32_t>{-1}), StatusCode::kInvalidArgument,
               "got -1");
  ASSERT_OK(writer->AddSequence(std::vector<int32_t>{99}));
  ASSERT_OK(writer->Commit());
  ASSERT_OK_AND_ASSIGN(auto dataset, IndexedDataset::Open(prefix()));
  EXPECT_EQ(ReadAll(dataset), (Sequences{{99}}));
  EXPECT_FAILS(IndexedDatasetWriter::Create(prefix(), 0), StatusCode::kInvalidArgument,
               "vocabulary");
}

TEST_F(IndexedDatasetTest, AnUncommittedWriterLeavesNothing) {
  {
    ASSERT_OK_AND_ASSIGN(auto writer, IndexedDatasetWriter::Create(prefix(), 100));
    ASSERT_OK(writer->AddSequence(std::vector<int32_t>{1}));
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch_.path()));
}

TEST_F(IndexedDatasetTest, ErrorsNameFileOffsetGotAndExpected) {
  const std::string idx = IndexPath(prefix()).string(), bin = TokensPath(prefix()).string();
  const auto open = [&] { return IndexedDataset::Open(prefix()).status(); };
  const auto restore = [&] { Write({{1, 2, 3}, {4, 5}}, 100000); };
  restore();
  Patch<uint64_t>(9, 2);
  EXPECT_FAILS(open(), StatusCode::kDataLoss, idx, "version at byte 9: got 2, expected 1");
  restore();
  Patch<uint8_t>(17, 7);
  EXPECT_FAILS(open(), StatusCode::kInvalidArgument, idx, "byte 17", "code 7");
  restore();
  Patch<uint64_t>(18, UINT64_MAX);
  EXPECT_FAILS(open(), StatusCode::kDataLoss, idx, "byte 18", "got 18446744073709551615");
  restore();
  Patch<uint64_t>(26, UINT64_MAX / 8 + 2);
  EXPECT_FAILS(open(), StatusCode::kDataLoss, idx, "byte 26");
  restore();
  Patch<int32_t>(34, -1);
  EXPECT_FAILS(open(), StatusCode::kDataLoss, idx, "length of sequence 0 at byte 34", "got -1");
  restore();
  Patch<int64_t>(50, 8);
  EXPECT_FAILS(open(), StatusCode::kDataLoss, idx,
               "pointer of sequence 1 at byte 50: got 8, expected 12");
  restore();
  Patch<int64_t>(66, 3);
  EXPECT_FAILS(open(), StatusCode::kDataLoss, idx,
               "document index 1 at byte 66: got 3, expected 0 to 2");
  restore();
  Patch<int64_t>(74, 1);
  EXPECT_FAILS(open(), StatusCode::kDataLoss, idx,
               "last document index at byte 74: got 1, expected 2");
  restore();
  PutFile(bin, "short");
  EXPECT_FAILS(open(), StatusCode::kDataLoss, bin, "got 5 bytes, expected 20 bytes");
  std::filesystem::remove(bin);
  EXPECT_FAILS(open(), StatusCode::kNotFound, bin);
}

TEST_F(IndexedDatasetTest, DetectsOrSurvivesEveryDamage) {
  Write({{1, 2, 3}, {4, 5}}, 100);
  for (const auto& path : {IndexPath(prefix()), TokensPath(prefix())}) {
    ForEachDamage(path, [&](bool is_truncation) {
      const auto dataset = IndexedDataset::Open(prefix());
      if (is_truncation) {
        EXPECT_FALSE(dataset.ok());
      }
      if (!dataset.ok()) {
        EXPECT_FAILS(dataset, dataset.status().code(), "data.v1", "got ", "expected ");
        return;
      }
      int64_t num_tokens = 0;
      for (const auto& sequence : ReadAll(*dataset)) num_tokens += sequence.size();
      EXPECT_EQ(num_tokens, dataset->num_tokens());
    });
  }
}

using IndexedDatasetDeathTest = IndexedDatasetTest;

TEST_F(IndexedDatasetDeathTest, ReadingPastTheEndIsABrokenInvariant) {
  Write({{1}}, 100);
  ASSERT_OK_AND_ASSIGN(auto dataset, IndexedDataset::Open(prefix()));
  EXPECT_DEATH(dataset.Read(1), "1 of 1");
  EXPECT_DEATH(dataset.Read(-1), "-1 of 1");
}

}  // namespace indexed_dataset_test
}  // namespace braid
