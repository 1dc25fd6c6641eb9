#include "trainer/checkpoint_writer.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>

#include "absl/strings/match.h"
#include "base/atomic_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/checkpoint_directory.h"
#include "tests/base/file_calls.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace checkpoint_writer_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr size_t kSize = 64;

// Blocks all calls that change a file until it is opened.
class Gate {
 public:
  Gate(std::string call, std::string part) {
    WatchFileCalls([this, call = std::move(call), part = std::move(part)](const FileCall& c) {
      if (c.name == call && absl::StrContains(c.path, part)) Hold();
      return 0;
    });
  }
  ~Gate() { WatchFileCalls(nullptr); }

  // Waits until a call has arrived.
  void Await() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kDeadline, [&] { return held_; }));
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr std::chrono::seconds kDeadline{60};

  void Hold() {
    std::unique_lock lock(mutex_);
    held_ = true;
    changed_.notify_all();
    EXPECT_TRUE(changed_.wait_for(lock, kDeadline, [&] { return open_; }));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, open_ = false;
};

class CheckpointWriterTest : public testing::Test {
 protected:
  CheckpointWriterTest() : root_(NewDirectory("writer")), checkpoints_(root_ / "checkpoints") {
    EXPECT_TRUE(WriteFileAtomically(root_ / "tokenizer.model", "tokens").ok());
    std::iota(values_.begin(), values_.end(), 0.0f);
  }

  CheckpointWriterSettings Settings() {
    CheckpointWriterSettings settings;
    settings.checkpoints = checkpoints_;
    settings.tokenizer = root_ / "tokenizer.model";
    settings.retention.keep_last = 5;
    settings.attempt = "0a";
    return settings;
  }

  CheckpointSource Source(int64_t step) {
    CheckpointSource source;
    source.state.step = step;
    source.weights = {{"w", {kSize}, values_}};
    source.moments = {{0, kSize}, values_, values_};
    return source;
  }

  bool Published(int64_t step) { return fs::exists(CheckpointPath(checkpoints_, step)); }

  fs::path root_, checkpoints_;
  std::vector<float> values_ = std::vector<float>(kSize);
  SingleProcess alone_;
};

TEST_F(CheckpointWriterTest, TheRunMayChangeItsWeightsWhileTheyAreWritten) {
  Gate gate("mkdir", "checkpoints");
  CheckpointWriter writer(&alone_, Settings());
  ASSERT_TRUE(writer.Start(Source(3)).ok());
  gate.Await();
  EXPECT_FALSE(writer.Ready());
  const std::vector<float> then = values_;
  values_.assign(kSize, -1.0f);
  gate.Open();
  ASSERT_TRUE(writer.Finish().ok());
  const fs::path path = CheckpointPath(checkpoints_, 3);
  ASSERT_TRUE(ReadWeights(path, *ReadCheckpointState(path), Source(3).weights).ok());
  EXPECT_EQ(values_, then);
}

TEST_F(CheckpointWriterTest, ANewCheckpointWaitsForThePreviousOne) {
  Gate gate("fsync", "manifest.json.tmp");
  CheckpointWriter writer(&alone_, Settings());
  ASSERT_TRUE(writer.Start(Source(3)).ok());
  std::thread opener([&] {
    gate.Await();
    gate.Open();
  });
  ASSERT_TRUE(writer.Start(Source(4)).ok());
  EXPECT_TRUE(Published(3));
  opener.join();
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_TRUE(Published(4));
}

TEST_F(CheckpointWriterTest, NothingIsPublishedBeforeEveryRankHasWritten) {
  Gate gate("fsync", "optimizer-00002-of-00002.safetensors.tmp");
  const auto results = RunThreadedRanks(2, [&](Communicator& ranks) -> absl::Status {
    CheckpointWriter writer(&ranks, Settings());
    const absl::Status started = writer.Start(Source(3));
    if (!started.ok()) return started;
    if (ranks.rank() == 0) {
      gate.Await();
      while (!writer.Ready()) std::this_thread::yield();
      EXPECT_FALSE(Published(3));
      EXPECT_FALSE(fs::exists(StagingPath(checkpoints_, 3, "0a") / "manifest.json"));
      gate.Open();
    }
    return writer.Finish();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(VerifyCheckpoint(CheckpointPath(checkpoints_, 3)).ok());
}

TEST_F(CheckpointWriterTest, AFailureOfOneRankFailsAllRanks) {
  WatchFileCalls([](const FileCall& call) {
    const bool write = !absl::StartsWith(call.name, "unlink");
    return write && absl::StrContains(call.path, "model-00003-of-00003") ? ENOSPC : 0;
  });
  const auto results = RunThreadedRanks(3, [&](Communicator& ranks) -> absl::Status {
    CheckpointWriter writer(&ranks, Settings());
    const absl::Status started = writer.Start(Source(3));
    return started.ok() ? writer.Finish() : started;
  });
  WatchFileCalls(nullptr);
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr("model-00003-of-00003"));
  }
  EXPECT_TRUE(fs::is_empty(checkpoints_));
}

TEST_F(CheckpointWriterTest, TheEndOfTheRunCancelsTheCheckpointInProgress) {
  Gate gate("fsync", "model.safetensors.tmp");
  {
    CheckpointWriter writer(&alone_, Settings());
    ASSERT_TRUE(writer.Start(Source(3)).ok());
    gate.Await();
    // Opened at about the time when the destructor requests the stop: the thread may then write all
    // its files, but must not publish them.
    std::thread([&gate] { gate.Open(); }).join();
  }
  EXPECT_FALSE(Published(3));
  ASSERT_TRUE(RemoveLeftovers(checkpoints_).ok());
  EXPECT_TRUE(fs::is_empty(checkpoints_));
}

// The directory of another attempt at the same step, still being written, does not interfere.
TEST_F(CheckpointWriterTest, AttemptsDoNotShareFiles) {
  const fs::path other = StagingPath(checkpoints_, 3, "0b");
  fs::create_directories(other);
  ASSERT_TRUE(WriteFileAtomically(other / "model.safetensors", "of another attempt").ok());
  CheckpointWriter writer(&alone_, Settings());
  ASSERT_TRUE(writer.Start(Source(3)).ok());
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_TRUE(VerifyCheckpoint(CheckpointPath(checkpoints_, 3)).ok());
  EXPECT_EQ(*ReadFile(other / "model.safetensors"), "of another attempt");
}

}  // namespace checkpoint_writer_test
}  // namespace braid
