// Continuation of files that another process left incomplete.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "formats/indexed_dataset.h"
#include "formats/npy.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace resume_test {

namespace fs = std::filesystem;

// Bytes after the synced prefix, as left by a process that dies during a write.
void AppendGarbage(const fs::path& path) { PutFile(path, GetFile(path) + "torn"); }

TEST(ResumeTest, AtomicFileContinuesAfterSyncedBytes) {
  ScratchDirectory scratch;
  DurablePrefixes synced;
  {
    ASSERT_OK_AND_ASSIGN(auto file, AtomicFile::Resume(scratch / "x", synced));
    ASSERT_OK(file->Append("one "));
    ASSERT_OK(file->Sync(&synced));
    ASSERT_OK(file->Append("lost"));
  }
  AppendGarbage(scratch / "x.tmp");
  ASSERT_OK_AND_ASSIGN(auto file, AtomicFile::Resume(scratch / "x", synced));
  EXPECT_EQ(file->size(), 4);
  ASSERT_OK(file->Append("two"));
  ASSERT_OK_AND_ASSIGN(const std::string text, file->ReadBack());
  EXPECT_EQ(text, "one two");
  ASSERT_OK_AND_ASSIGN(const FileSummary summary, file->Commit());
  EXPECT_EQ(GetFile(scratch / "x"), "one two");
  ASSERT_OK_AND_ASSIGN(const FileSummary found, SummarizeFile(scratch / "x"));
  EXPECT_EQ(found.crc32c, summary.crc32c);
  EXPECT_FALSE(fs::exists(scratch / "x.tmp"));
}

TEST(ResumeTest, AtomicFileContinuesAfterCommit) {
  ScratchDirectory scratch;
  DurablePrefixes synced;
  ASSERT_OK_AND_ASSIGN(auto file, AtomicFile::Create(scratch / "x"));
  ASSERT_OK(file->Append("one"));
  ASSERT_OK(file->Sync(&synced));
  ASSERT_OK(file->Append(" and more"));
  ASSERT_OK(file->Commit().status());
  ASSERT_OK_AND_ASSIGN(file, AtomicFile::Resume(scratch / "x", synced));
  EXPECT_FALSE(fs::exists(scratch / "x"));
  ASSERT_OK(file->Commit().status());
  EXPECT_EQ(GetFile(scratch / "x"), "one");
}

TEST(ResumeTest, AtomicFileRefusesAnyOtherPrefix) {
  ScratchDirectory scratch;
  DurablePrefixes synced;
  {
    ASSERT_OK_AND_ASSIGN(auto file, AtomicFile::Create(scratch / "x"));
    ASSERT_OK(file->Append("0123456789"));
    ASSERT_OK(file->Sync(&synced));
  }
  const auto refused = [&](const std::string& content) {
    PutFile(scratch / "x.tmp", content);
    const absl::Status status = AtomicFile::Resume(scratch / "x", synced).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return IsUnresumable(status);
  };
  EXPECT_TRUE(refused("012345678"));
  EXPECT_TRUE(refused("0123456788"));
  EXPECT_TRUE(refused(""));
  EXPECT_FALSE(IsUnresumable(absl::DataLossError("x")));
  fs::remove(scratch / "x.tmp");
  EXPECT_TRUE(IsUnresumable(AtomicFile::Resume(scratch / "x", synced).status()));
  EXPECT_TRUE(IsUnresumable(AtomicFile::Resume(scratch / "y", synced).status()));
}

// Compares files written at once with files that are synced every few rows and truncated or
// committed anywhere.
TEST(ResumeTest, NpyBytesDoNotDependOnResumes) {
  ScratchDirectory scratch;
  std::mt19937 random(7);
  std::vector<float> rows(300);
  std::iota(rows.begin(), rows.end(), 0.5f);
  ASSERT_OK_AND_ASSIGN(auto whole, NpyWriter<float>::Create(scratch / "whole.npy", {3}));
  ASSERT_OK(whole.AppendRows(rows));
  ASSERT_OK_AND_ASSIGN(const FileSummary expected, whole.Commit());
  DurablePrefixes synced;
  size_t row = 0;
  while (row < 100) {
    ASSERT_OK_AND_ASSIGN(auto writer, NpyWriter<float>::Resume(scratch / "x.npy", {3}, synced));
    ASSERT_EQ(writer.num_rows(), static_cast<int64_t>(row));
    const size_t count = std::min<size_t>(1 + random() % 9, 100 - row);
    ASSERT_OK(writer.AppendRows(std::span(rows).subspan(3 * row, 3 * count)));
    ASSERT_OK(writer.Sync(&synced));
    row += count;
    ASSERT_OK(writer.AppendRows(std::span(rows).subspan(0, 6)));
    if (random() % 2 == 0) {
      ASSERT_OK(writer.Commit().status());
    }
  }
  ASSERT_OK_AND_ASSIGN(auto writer, NpyWriter<float>::Resume(scratch / "x.npy", {3}, synced));
  ASSERT_OK_AND_ASSIGN(const FileSummary summary, writer.Commit());
  EXPECT_EQ(summary.crc32c, expected.crc32c);
  EXPECT_EQ(GetFile(scratch / "x.npy"), GetFile(scratch / "whole.npy"));
}

TEST(ResumeTest, NpyRefusesAnotherRowSize) {
  ScratchDirectory scratch;
  DurablePrefixes synced;
  {
    ASSERT_OK_AND_ASSIGN(auto writer, NpyWriter<float>::Create(scratch / "x.npy", {3}));
    ASSERT_OK(writer.AppendRows(std::vector<float>(6)));
    ASSERT_OK(writer.Sync(&synced));
  }
  EXPECT_TRUE(IsUnresumable(NpyWriter<float>::Resume(scratch / "x.npy", {5}, synced).status()));
}

void AddDocument(IndexedDatasetWriter* writer, int document) {
  for (int i = 0; i < document % 3; ++i) {
    const std::vector<int32_t> tokens(static_cast<size_t>((document + i) % 5), document);
    ASSERT_OK(writer->AddSequence(tokens));
  }
  writer->EndDocument();
}

TEST(ResumeTest, IndexedDatasetBytesDoNotDependOnResumes) {
  for (const int64_t vocab_size : {1000, 70000}) {
    ScratchDirectory scratch;
    std::mt19937 random(7);
    ASSERT_OK_AND_ASSIGN(auto whole, IndexedDatasetWriter::Create(scratch / "whole", vocab_size));
    for (int i = 0; i < 100; ++i) AddDocument(whole.get(), i);
    ASSERT_OK(whole->Commit().status());
    DurablePrefixes synced;
    int next = 0;
    while (next < 100) {
      ASSERT_OK_AND_ASSIGN(auto writer,
                           IndexedDatasetWriter::Resume(scratch / "x", vocab_size, synced));
      for (int count = 1 + static_cast<int>(random() % 9); count > 0 && next < 100; --count) {
        AddDocument(writer.get(), next++);
        if (random() % 3 == 0) {
          ASSERT_OK(writer->Sync(&synced));
        }
      }
      ASSERT_OK(writer->Sync(&synced));
      AddDocument(writer.get(), 5);
      if (random() % 2 == 0) {
        ASSERT_OK(writer->Commit().status());
      }
    }
    ASSERT_OK_AND_ASSIGN(auto writer,
                         IndexedDatasetWriter::Resume(scratch / "x", vocab_size, synced));
    EXPECT_EQ(writer->num_tokens(), whole->num_tokens());
    ASSERT_OK(writer->Commit().status());
    for (const char* ending : {".bin", ".idx"}) {
      EXPECT_EQ(GetFile(scratch / ("x" + std::string(ending))),
                GetFile(scratch / ("whole" + std::string(ending))));
    }
  }
}

TEST(ResumeTest, IndexedDatasetRefusesInconsistentLengths) {
  ScratchDirectory scratch;
  DurablePrefixes first, second;
  {
    ASSERT_OK_AND_ASSIGN(auto writer, IndexedDatasetWriter::Create(scratch / "x", 10));
    ASSERT_OK(writer->Sync(&first));
    AddDocument(writer.get(), 5);
    ASSERT_OK(writer->Sync(&second));
  }
  second["x.lengths"] = first["x.lengths"];
  EXPECT_TRUE(IsUnresumable(IndexedDatasetWriter::Resume(scratch / "x", 10, second).status()));
}

}  // namespace resume_test
}  // namespace braid
