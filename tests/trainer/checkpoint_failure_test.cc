// File systems that fail while a checkpoint is written: the run stops with an error, published
// checkpoints remain, and a resumed run gives the same bits.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/checkpoint_directory.h"
#include "tests/trainer/faulty_run.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace checkpoint_failure_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class CheckpointFailureTest : public testing::Test {
 protected:
  CheckpointFailureTest() : dataset_(NewDirectory("data")), run_(NewDirectory("run")) {
    WriteTinyDataset(dataset_);
    spec_ = TinySpec(dataset_, 7);
    spec_.set_world_size(2);
    spec_.mutable_checkpoint()->set_every_steps(2);
    spec_.mutable_checkpoint()->set_keep_last(1);
    const RunDirectory whole(NewDirectory("whole"));
    const ChildResult result = TrainInChild(whole, spec_, {});
    EXPECT_TRUE(result.status.ok()) << result.status;
    events_ = result.events;
    losses_ = LossLines(whole);
    weights_ = NewestWeights(whole);
  }

  static std::vector<std::string> Names(const RunDirectory& run) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run.checkpoints())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  static void ExpectAllGood(const RunDirectory& run) {
    std::vector<std::string> skipped;
    const auto newest = NewestGoodCheckpoint(run.checkpoints(), &skipped);
    EXPECT_TRUE(newest.ok()) << newest.status();
    EXPECT_TRUE(skipped.empty()) << skipped.front();
  }

  void ExpectSameBitsAfterResume(const RunDirectory& run) {
    const ChildResult resumed = TrainInChild(run, spec_, {});
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    EXPECT_EQ(LossLines(run), losses_);
    EXPECT_EQ(NewestWeights(run), weights_);
  }

  // Makes the given calls of the second checkpoint fail, one at a time.
  void ExpectCleanStop(const std::string& call, int error, const std::string& message) {
    int tried = 0;
    for (const auto& [event, count] : events_) {
      if (!absl::StartsWith(event, call + " /checkpoints/") || count < 2) continue;
      SCOPED_TRACE(event);
      ++tried;
      const RunDirectory run(NewDirectory("run"));
      Fault fault;
      fault.event = event;
      fault.occurrence = 1 + count / 2;
      fault.error = error;
      const ChildResult result = TrainInChild(run, spec_, fault);
      ASSERT_FALSE(result.killed);
      EXPECT_THAT(std::string(result.status.message()), HasSubstr(message));
      EXPECT_THAT(std::string(result.status.message()), HasSubstr("checkpoint not completed: "));
      EXPECT_THAT(std::string(result.status.message()), HasSubstr("/checkpoints"));
      EXPECT_THAT(std::string(result.status.message()), Not(HasSubstr(".tmp/")))
          << "the directory of the attempt";
      EXPECT_THAT(Names(run), testing::Contains(Not(HasSubstr("tmp"))));
      ExpectAllGood(run);
      ExpectSameBitsAfterResume(run);
    }
    EXPECT_GT(tried, 0);
  }

  fs::path dataset_;
  RunDirectory run_;
  v1::RunSpec spec_;
  std::map<std::string, int64_t> events_;
  std::string losses_, weights_;
};

TEST_F(CheckpointFailureTest, FullDiskStopsTheRun) {
  ExpectCleanStop("posix_fallocate", ENOSPC, "No space left on device");
  ExpectCleanStop("mkdir", ENOSPC, "No space left on device");
}

TEST_F(CheckpointFailureTest, FailingDeviceStopsTheRun) {
  ExpectCleanStop("pwrite", EIO, "Input/output error");
  ExpectCleanStop("fsync", EIO, "Input/output error");
}

TEST_F(CheckpointFailureTest, ReadOnlyFileSystemStopsTheRun) {
  ExpectCleanStop("rename", EROFS, "Read-only file system");
}

TEST_F(CheckpointFailureTest, AnOldCheckpointThatCannotBeRemovedStays) {
  Fault fault;
  fault.event = "rename /checkpoints/step-N.old.tmp";
  ASSERT_TRUE(events_.contains(fault.event));
  fault.occurrence = events_.at(fault.event);  // after the last step
  fault.error = EBUSY;
  const ChildResult result = TrainInChild(run_, spec_, fault);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(Names(run_), testing::UnorderedElementsAre("step-00000006", "step-00000007"));
  ExpectAllGood(run_);
  EXPECT_EQ(NewestWeights(run_), weights_);
}

// The limit permits the dense model and fails at the first checkpoint with experts.
TEST_F(CheckpointFailureTest, FileSizeLimitStopsTheRun) {
  spec_.mutable_checkpoint()->set_every_steps(1);
  const RunDirectory whole(NewDirectory("whole"));
  ASSERT_TRUE(TrainInChild(whole, spec_, {}).status.ok());
  losses_ = LossLines(whole);
  weights_ = NewestWeights(whole);
  const ChildResult result = TrainInChild(run_, spec_, {}, [] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {40000, 40000};
    setrlimit(RLIMIT_FSIZE, &limit);
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("optimizer-0000"));
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("ulimit -f"));
  EXPECT_THAT(Names(run_), testing::ElementsAre("step-00000002"));
  ExpectAllGood(run_);
  ExpectSameBitsAfterResume(run_);
}

// Uses real permissions: the child changes to an unprivileged user.
TEST_F(CheckpointFailureTest, ReadOnlyDirectoryStopsTheRun) {
  Fault killed;
  killed.event = "write /metrics.jsonl";
  killed.occurrence = 7;
  ASSERT_TRUE(TrainInChild(run_, spec_, killed).killed);
  ExpectAllGood(run_);
  const fs::path checkpoints = run_.checkpoints();
  fs::permissions(checkpoints, fs::perms(0555));
  const ChildResult result = TrainInChild(run_, spec_, {}, [&] {
    if (getuid() != 0) return;
    constexpr uid_t kNobody = 65534;
    for (const auto& entry : fs::recursive_directory_iterator(run_.root())) {
      if (absl::StartsWith(entry.path().string(), checkpoints.string())) continue;
      BRAID_CHECK(lchown(entry.path().c_str(), kNobody, kNobody) == 0);
    }
    BRAID_CHECK(lchown(run_.root().c_str(), kNobody, kNobody) == 0);
    BRAID_CHECK(setresuid(kNobody, kNobody, kNobody) == 0);
  });
  fs::permissions(checkpoints, fs::perms(0755));
  EXPECT_EQ(result.status.code(), absl::StatusCode::kPermissionDenied) << result.status;
  EXPECT_THAT(std::string(result.status.message()), HasSubstr(checkpoints.string()));
  ExpectAllGood(run_);
  ExpectSameBitsAfterResume(run_);
}

// A rank that fails elsewhere ends its own writer and the other ranks.
TEST_F(CheckpointFailureTest, AFailureElsewhereEndsAllRanksAndWriters) {
  for (int rank : {0, 1}) {
    for (int64_t occurrence : {3, 4, 5, 6}) {
      const RunDirectory run(NewDirectory("run"));
      Fault fault;
      fault.event = absl::StrCat("pwrite /heartbeat/rank-", rank, "..new.tmp");
      fault.occurrence = occurrence;
      fault.error = EIO;
      const ChildResult result = TrainInChild(run, spec_, fault);
      EXPECT_THAT(std::string(result.status.message()), HasSubstr("heartbeat"));
      ExpectAllGood(run);
      ExpectSameBitsAfterResume(run);
    }
  }
}

}  // namespace checkpoint_failure_test
}  // namespace braid
