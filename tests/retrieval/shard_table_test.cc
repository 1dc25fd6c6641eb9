#include "retrieval/shard_table.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace shard_table_test {

constexpr int kDimension = 2;
constexpr char kName[] = "s";

// Creates a sealed shard of one vector.
void AddSealedShard(ShardTable* table) {
  ASSERT_OK(table->Create(kName, kDimension, "Flat"));
  ASSERT_OK_AND_ASSIGN(const auto shard, table->Find(kName));
  ASSERT_OK(shard->Add(std::vector<int64_t>{7}, std::vector<float>{1, 0}).status());
  ASSERT_OK(shard->Seal().status());
}

TEST(ShardTableTest, DropsADamagedShard) {
  const ScratchDirectory home;
  {
    ShardTable table(home.path());
    AddSealedShard(&table);
  }
  PutFile(home.path() / kName / "manifest.json", "{");
  ShardTable table(home.path());
  EXPECT_FALSE(table.Find(kName).ok());
  ASSERT_OK_AND_ASSIGN(const bool existed, table.Drop(kName));
  EXPECT_TRUE(existed);
  EXPECT_FALSE(std::filesystem::exists(home.path() / kName));
}

TEST(ShardTableTest, ShardsOfEarlierProcessesCount) {
  const ScratchDirectory home;
  for (int i = 0; i < 1000; ++i) {
    std::filesystem::create_directory(home.path() / absl::StrCat("s", i));
    PutFile(home.path() / absl::StrCat("s", i) / "manifest.json", "{}");
  }
  ShardTable table(home.path());
  EXPECT_FAILS(table.Create("one-more", kDimension, "Flat"), absl::StatusCode::kResourceExhausted,
               "got 1000 shards");
}

// A client drops a shard again when the answer is late. If both calls removed files, the second one
// might remove those of a newer shard of the name.
TEST(ShardTableTest, OfTwoDropsAtOnceOneRemovesTheShard) {
  const ScratchDirectory home;
  ShardTable table(home.path());
  for (int round = 0; round < 200; ++round) {
    AddSealedShard(&table);
    std::array<bool, 2> dropped = {};
    std::vector<std::thread> calls;
    for (bool& own : dropped) {
      calls.emplace_back([&] { own = table.Drop(kName).value_or(false); });
    }
    for (std::thread& call : calls) call.join();
    EXPECT_NE(dropped[0], dropped[1]);
    EXPECT_FALSE(std::filesystem::exists(home.path() / kName));
  }
}

}  // namespace shard_table_test
}  // namespace braid
