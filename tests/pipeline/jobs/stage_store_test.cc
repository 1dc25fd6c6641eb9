#include "pipeline/stage_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "formats/atomic_file.h"
#include "pipeline/stage_key.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace {

const std::string kKey = StageKey("double", 1).Add("x", 1).Hex();

class StageStoreTest : public testing::Test {
 protected:
  absl::StatusOr<StoredStage> Produce(const std::string& key = kKey) {
    return store_.Produce("double", key, [&](StageWriter& writer) {
      ++builds_;
      return writer.AddText("answer.txt", "42\n", 1);
    });
  }
  std::filesystem::path Answer() const { return store_.DirectoryOf("double", kKey) / "answer.txt"; }

  const std::filesystem::path root_ = NewDirectory();
  StageStore store_{root_};
  std::atomic<int> builds_ = 0;
};

TEST_F(StageStoreTest, BuildsOnceAndReusesAfterwards) {
  const auto first = Produce();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->reused);
  const auto second = Produce();
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->reused);
  EXPECT_EQ(builds_, 1);
  EXPECT_EQ(second->manifest, first->manifest);
  EXPECT_EQ(*ReadFile(Answer()), "42\n");
}

TEST_F(StageStoreTest, BuildsAgainWhenAFileIsDamaged) {
  ASSERT_TRUE(Produce().ok());
  std::ofstream(Answer()) << "43\n";
  ASSERT_TRUE(Produce().ok());
  EXPECT_EQ(builds_, 2);
  EXPECT_EQ(*ReadFile(Answer()), "42\n");
}

TEST_F(StageStoreTest, BuildsAgainWhenAFileOrTheManifestIsMissing) {
  ASSERT_TRUE(Produce().ok());
  std::filesystem::remove(Answer());
  ASSERT_TRUE(Produce().ok());
  std::filesystem::remove(store_.DirectoryOf("double", kKey) / kManifestName);
  ASSERT_TRUE(Produce().ok());
  EXPECT_EQ(builds_, 3);
}

TEST_F(StageStoreTest, BuildsAgainWhenOnlyTheFirstHalfOfTheKeyAgrees) {
  const std::string other = kKey.substr(0, 16) + std::string(16, '0');
  ASSERT_TRUE(Produce().ok());
  ASSERT_TRUE(Produce(other).ok());
  EXPECT_EQ(builds_, 2);
}

TEST_F(StageStoreTest, KeepsWhatItCannotReadJustNow) {
  ASSERT_TRUE(Produce().ok());
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = Produce().status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(Produce()->reused);
  EXPECT_EQ(builds_, 1);
}

TEST_F(StageStoreTest, ClearsWhatAKilledProcessLeft) {
  const std::filesystem::path temporary = store_.DirectoryOf("double", kKey).string() + ".tmp";
  std::filesystem::create_directories(temporary);
  std::ofstream(temporary / "half") << "written";
  ASSERT_TRUE(Produce().ok());
  EXPECT_FALSE(std::filesystem::exists(temporary));
  EXPECT_FALSE(std::filesystem::exists(store_.DirectoryOf("double", kKey) / "half"));
}

TEST_F(StageStoreTest, LeavesNothingAfterAnError) {
  const auto failed = store_.Produce("double", kKey, [](StageWriter& writer) {
    writer.AddText("answer.txt", "4", 1).IgnoreError();
    return absl::DataLossError("broken");
  });
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(StageStoreTest, GivesConcurrentCallersOneBuild) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_TRUE(Produce().ok()); });
  threads.clear();
  EXPECT_EQ(builds_, 1);
}

TEST(StageKeyTest, DependsOnEveryFieldItsNameTypeAndPlace) {
  std::set<std::string> keys = {
      StageKey("a", 1).Hex(),
      StageKey("b", 1).Hex(),
      StageKey("a", 2).Hex(),
      StageKey("a", 1).Add("x", 1).Hex(),
      StageKey("a", 1).Add("y", 1).Hex(),
      StageKey("a", 1).Add("x", 1.0).Hex(),
      StageKey("a", 1).Add("x", "1").Hex(),
      StageKey("a", 1).Add("x", true).Hex(),
      StageKey("a", 1).Add("x", "1").Add("y", "2").Hex(),
      StageKey("a", 1).Add("y", "2").Add("x", "1").Hex(),
      StageKey("a", 1).Add("x", "1y").Add("", "2").Hex(),
  };
  EXPECT_EQ(keys.size(), 11u);
  for (const std::string& key : keys) EXPECT_EQ(key.size(), 32u);
}

TEST(StageKeyTest, StaysTheSameFromBuildToBuild) {
  EXPECT_EQ(StageKey("ingest", 1).Add("k", 20).Add("c", 0.9).Add("s", uint64_t{7}).Hex(),
            "1ff9fe05c7bf31e14c1672a09d29a6e6");
}

}  // namespace
}  // namespace braid
