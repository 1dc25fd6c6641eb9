#include "trainer/data_loader.h"

#include "formats/indexed_dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace data_loader_test {

using testing::ElementsAre;
using testing::HasSubstr;

DatasetInfo Info() {
  DatasetInfo info;
  info.sequence_length = 4;
  info.vocab_size = 50;
  info.eos_id = 2;
  return info;
}

std::filesystem::path Write(const std::vector<std::vector<int32_t>>& sequences) {
  const std::filesystem::path prefix = NewDirectory("loader") / "instances";
  auto writer = *IndexedDatasetWriter::Create(prefix, 100);
  for (const auto& sequence : sequences) EXPECT_TRUE(writer->AddSequence(sequence).ok());
  EXPECT_TRUE(writer->Commit().ok());
  return prefix;
}

TEST(MakeBatchTest, ShiftsAndPads) {
  const std::vector<std::vector<int32_t>> sequences = {{5, 6, 7, 8, 9}, {5, 6, 7}, {5}, {}};
  const Batch batch = MakeBatch(sequences, 4, 2);
  EXPECT_THAT(batch.inputs, ElementsAre(5, 6, 7, 8, 5, 6, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2));
  EXPECT_THAT(batch.targets, ElementsAre(6, 7, 8, 9, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(batch.lengths, ElementsAre(4, 2, 0, 0));
  EXPECT_EQ(batch.num_targets, 6);
}

TEST(MakeBatchTest, SlicesBySequence) {
  const std::vector<std::vector<int32_t>> sequences = {{1, 2, 3}, {4, 5, 6}, {7, 8}};
  const Batch slice = MakeBatch(sequences, 2, 0).Slice(1, 3);
  EXPECT_THAT(slice.inputs, ElementsAre(4, 5, 7, 0));
  EXPECT_THAT(slice.targets, ElementsAre(5, 6, 8, -1));
  EXPECT_EQ(slice.batch_size, 2);
  EXPECT_EQ(slice.num_targets, 3);
}

TEST(DataLoaderTest, ReadsInTheOrderAsked) {
  const auto loader = DataLoader::Open(Write({{5, 6, 7, 8, 9}, {10, 11}}), Info());
  ASSERT_TRUE(loader.ok()) << loader.status();
  const auto batch = loader->Load(std::vector<int64_t>{1, 0, 1});
  ASSERT_TRUE(batch.ok());
  EXPECT_THAT(batch->inputs, ElementsAre(10, 2, 2, 2, 5, 6, 7, 8, 10, 2, 2, 2));
}

TEST(DataLoaderTest, NamesAnInstanceThatIsTooLong) {
  const auto loader = DataLoader::Open(Write({{1, 2}, {1, 2, 3, 4, 5, 6}}), Info());
  const absl::Status status = loader->Load(std::vector<int64_t>{0, 1}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("instance 1 has 6 tokens"));
}

TEST(DataLoaderTest, NamesATokenOutsideTheVocabulary) {
  const auto loader = DataLoader::Open(Write({{1, 50}}), Info());
  const absl::Status status = loader->Load(std::vector<int64_t>{0}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("instance 0 holds token 50"));
}

TEST(DataLoaderTest, NamesAMissingFile) {
  const absl::Status status = DataLoader::Open("/nowhere/instances", Info()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/instances"));
}

}  // namespace data_loader_test
}  // namespace braid
