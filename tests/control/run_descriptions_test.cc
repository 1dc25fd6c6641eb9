#include "control/run_descriptions.h"

#include <gtest/gtest.h>

#include "base/clock.h"
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

}  // namespace run_descriptions_test
}  // namespace braid
