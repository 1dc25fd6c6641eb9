#include "pipeline/ordering/document_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace document_blocks_test {

using Blocks = std::vector<std::pair<int64_t, int64_t>>;
using testing::ElementsAre;
using testing::Pair;

absl::Status GoOn(const StagePosition&) { return absl::OkStatus(); }

Blocks BlocksOf(const DocumentStore& documents, const std::vector<uint32_t>& numbers) {
  Blocks blocks;
  EXPECT_TRUE(ForDocumentBlocks(documents, numbers, GoOn, [&](int64_t begin, int64_t end) {
                blocks.emplace_back(begin, end);
              }).ok());
  return blocks;
}

TEST(DocumentBlocksTest, BlocksHaveFewBytesOrOneDocument) {
  const std::string large(5 << 20, 'x'), medium(3 << 19, 'x');
  const DocumentStore documents = StoreOf({large, medium, "a"});
  EXPECT_THAT(BlocksOf(documents, {1, 1, 1, 0, 2, 0}),
              ElementsAre(Pair(0, 2), Pair(2, 3), Pair(3, 4), Pair(4, 5), Pair(5, 6)));
}

TEST(DocumentBlocksTest, BlocksHaveFewDocuments) {
  const DocumentStore documents = StoreOf({"a"});
  EXPECT_THAT(BlocksOf(documents, std::vector<uint32_t>(10000, 0)),
              ElementsAre(Pair(0, 8192), Pair(8192, 10000)));
  EXPECT_TRUE(BlocksOf(documents, {}).empty());
}

TEST(DocumentBlocksTest, EndsWithTheErrorOfTheCallback) {
  const DocumentStore documents = StoreOf({std::string(5 << 20, 'x')});
  int num_blocks = 0;
  const auto cancel = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 4);
    return done < 2 ? absl::OkStatus() : absl::CancelledError("enough");
  };
  const absl::Status status = ForDocumentBlocks(documents, std::vector<uint32_t>(4, 0), cancel,
                                                [&](int64_t, int64_t) { ++num_blocks; });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(num_blocks, 2);
}

}  // namespace document_blocks_test
}  // namespace braid
