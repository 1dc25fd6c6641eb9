#include "control/run_keeper.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <set>

#include "base/clock.h"
#include "control/launch/launch_lock.h"
#include "runs/process_identity.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace run_keeper_test {

class RunKeeperTest : public ControlFixture {
 protected:
  RunKeeperTest() : store_(RunStore::Open(root_ / "home").value()) {}

  // A run whose process is this one, or one that ended.
  RunRecord AddRun(bool ended) {
    const RunRecord record = store_->Create("", "spec", UnixTime()).value();
    const RunDirectory run(record.run_dir);
    std::filesystem::create_directories(record.run_dir);
    if (ended) {
      EXPECT_TRUE(run.WriteExit({std::string(kSucceeded), "", 3}).ok());
    } else {
      const ProcessRecord process{
          .identity = IdentifyProcess(getpid()).value(), .nonce = "n", .launched_at = UnixTime()};
      EXPECT_TRUE(WriteProcessRecord(run.process(), process).ok());
    }
    return record;
  }

  const std::unique_ptr<RunStore> store_;
  std::mutex mutex_;
  std::multiset<std::string> supervised_;
};

TEST_F(RunKeeperTest, SupervisesActiveRunsAndSettlesEndedOnes) {
  const RunRecord live = AddRun(false), ended = AddRun(true);
  RunKeeper keeper(
      store_.get(),
      [&](const RunDirectory& run) {
        std::lock_guard lock(mutex_);
        supervised_.insert(run.root().filename().string());
        return absl::OkStatus();
      },
      std::chrono::milliseconds(5));
  EXPECT_TRUE(Eventually([&] {
    std::lock_guard lock(mutex_);
    return supervised_.count(live.id) > 5;
  })) << "active runs are checked repeatedly";
  {
    std::lock_guard lock(mutex_);
    EXPECT_LE(supervised_.count(ended.id), 1u) << "the first check settles no run";
  }
  EXPECT_EQ(store_->Active().value().size(), 1u);

  const RunRecord late = AddRun(true);
  keeper.Look();
  EXPECT_EQ(store_->Active().value().size(), 1u);
  // As a launch does; otherwise the keeper would settle the run.
  const FileLock lock = LockLaunch(RunDirectory(late.run_dir)).value();
  EXPECT_EQ(store_->Relaunch(late.id).value().launches, 2);
  EXPECT_TRUE(store_->Settle(late).ok());
  EXPECT_EQ(store_->Active().value().size(), 2u) << "a concurrent relaunch is not undone";
}

// A state that was observed before the launch began is outdated.
TEST_F(RunKeeperTest, RunBeingLaunchedIsNotSettled) {
  const RunRecord record = AddRun(true);
  auto lock = std::make_optional(LockLaunch(RunDirectory(record.run_dir)).value());
  RunKeeper keeper(
      store_.get(), [](const RunDirectory&) { return absl::OkStatus(); }, std::chrono::hours(1));
  keeper.Look();
  EXPECT_EQ(store_->Active().value().size(), 1u);
  lock.reset();
  keeper.Look();
  EXPECT_EQ(store_->Active().value().size(), 0u);
}

}  // namespace run_keeper_test
}  // namespace braid
