#include "control/run_descriptions.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "control/supervision/run_event_log.h"
#include "runs/run_directory.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace run_descriptions_test {

using RunDescriptionsTest = ControlFixture;

TEST_F(RunDescriptionsTest, SettledRunsAreCachedUntilTheyAreLaunchedAgain) {
  const auto store = RunStore::Open(root_ / "home").value();
  const std::string id = store->Create("", "spec", 1).value().id;
  const auto record = [&] { return store->Get(id).value(); };
  const RunDirectory run(record().run_dir);
  std::filesystem::create_directories(run.root());
  RunDescriptions descriptions;
  const auto state = [&] { return descriptions.Of(record(), UnixTime()).state(); };
  ASSERT_TRUE(run.WriteExit({std::string(kStopped), "", 3}).ok());
  EXPECT_EQ(state(), v1::RUN_STOPPED);
  ASSERT_TRUE(run.WriteExit({std::string(kSucceeded), "", 3}).ok());
  EXPECT_EQ(state(), v1::RUN_SUCCEEDED) << "an active run is not cached";

  ASSERT_TRUE(store->Settle(record()).ok());
  EXPECT_EQ(state(), v1::RUN_SUCCEEDED);
  ASSERT_TRUE(run.WriteExit({std::string(kStopped), "", 3}).ok());
  EXPECT_EQ(state(), v1::RUN_SUCCEEDED) << "a settled run is cached";
  Write(run.events(), "x\n");
  EXPECT_EQ(state(), v1::RUN_STOPPED) << "unless its event log grew";
  ASSERT_TRUE(store->Relaunch(id).ok());
  ASSERT_TRUE(store->Settle(record()).ok());
  ASSERT_TRUE(run.WriteExit({std::string(kSucceeded), "", 3}).ok());
  EXPECT_EQ(state(), v1::RUN_SUCCEEDED) << "or was launched again";
}

// As when the process has no descriptors left: the log is there, but cannot be read.
TEST_F(RunDescriptionsTest, RunsWhoseLogCannotBeReadAreNotCached) {
  const auto store = RunStore::Open(root_ / "home").value();
  const std::string id = store->Create("", "spec", 1).value().id;
  ASSERT_TRUE(store->Settle(store->Get(id).value()).ok());
  const RunRecord record = store->Get(id).value();
  const RunDirectory run(record.run_dir);
  std::filesystem::create_directories(run.root());
  RunDescriptions descriptions;
  const double later = UnixTime() + 3600;
  v1::RunEvent event;
  event.set_number(1);
  event.set_state(v1::RUN_SUCCEEDED);
  const std::string line = RunEventLine(event) + "\n";
  // Only sizes are compared: this one is that of the log below.
  Write(run.events(), std::string(line.size(), '?'));
  EXPECT_EQ(descriptions.Of(record, later).state(), v1::RUN_FAILED);
  Write(run.events(), line);
  EXPECT_EQ(descriptions.Of(record, later).state(), v1::RUN_SUCCEEDED);
}

}  // namespace run_descriptions_test
}  // namespace braid
