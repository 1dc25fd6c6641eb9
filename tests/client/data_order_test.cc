#include "client/data_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/base/status_matchers.h"

namespace braid {
namespace data_order_test {

using testing::ElementsAre;
using testing::IsEmpty;

// A run of 12 steps of 2 instances over a dataset of 6: four passes.
v1::Run FourPasses() {
  v1::Run run;
  run.set_id("run-000001");
  run.mutable_spec()->set_num_steps(12);
  run.mutable_spec()->mutable_batch()->set_global_batch_size(2);
  run.mutable_spec()->set_seed(3);
  run.mutable_latest()->set_step(12);
  return run;
}

std::vector<int64_t> StepsOf(const v1::Run& run, std::vector<v1::LossSpike> spikes,
                             int64_t instance) {
  DataOrder order = {.dataset_key = "key", .num_instances = 6};
  TakeFromRun(run, spikes, &order);
  return StepsOfInstance(order, instance);
}

v1::LossSpike Spike(v1::SpikePolicy action, int64_t first, int64_t last) {
  v1::LossSpike spike;
  spike.set_step(last > 0 ? last : 5);
  spike.set_action(action);
  spike.set_first_skipped_step(first);
  spike.set_last_skipped_step(last);
  return spike;
}

TEST(DataOrderTest, StepsThatSkippedTheirBatchesDoNotCount) {
  const std::vector<int64_t> all = StepsOf(FourPasses(), {}, 0);
  ASSERT_EQ(all.size(), 4u) << "once in every pass";
  EXPECT_THAT(StepsOf(FourPasses(), {Spike(v1::SKIP_BATCH, all[1], all[1])}, 0),
              ElementsAre(all[0], all[2], all[3]));
  EXPECT_THAT(StepsOf(FourPasses(), {Spike(v1::ROLLBACK, all[1], all[2])}, 0),
              ElementsAre(all[0], all[3]));
  EXPECT_EQ(StepsOf(FourPasses(), {Spike(v1::CONTINUE, 0, 0)}, 0), all) << "was trained on";
  // Instances of other steps are not affected.
  for (int64_t instance = 1; instance < 6; ++instance) {
    for (const int64_t step : StepsOf(FourPasses(), {}, instance)) {
      const std::vector<int64_t> left =
          StepsOf(FourPasses(), {Spike(v1::SKIP_BATCH, all[1], all[1])}, instance);
      EXPECT_EQ(std::ranges::count(left, step), step == all[1] ? 0 : 1);
    }
  }
}

TEST(DataOrderTest, StepsBeyondOnePassNeedTheirNumber) {
  DataOrder order = {.dataset_key = "key", .num_instances = 6, .global_batch_size = 4};
  EXPECT_OK(InstancesOfStep(order, 2));
  EXPECT_FAILS(InstancesOfStep(order, 3), absl::StatusCode::kInvalidArgument,
               "step: got 3, expected 1 to 2, the steps of one pass without --steps");
  order.num_steps = 3;
  EXPECT_OK(InstancesOfStep(order, 3));
  EXPECT_FAILS(InstancesOfStep(order, 4), absl::StatusCode::kInvalidArgument,
               "1 to 3, the steps of --steps");
}

TEST(DataOrderTest, SkippedAndLaterStepsWereNotTrainedOn) {
  DataOrder order = {.dataset_key = "key", .num_instances = 6, .global_batch_size = 4};
  EXPECT_TRUE(WasTrainedOn(order, 100)) << "only planned";
  order.steps_done = 10;
  order.skipped_steps = {{3, 4}};
  EXPECT_TRUE(WasTrainedOn(order, 2));
  EXPECT_FALSE(WasTrainedOn(order, 3));
  EXPECT_FALSE(WasTrainedOn(order, 4));
  EXPECT_TRUE(WasTrainedOn(order, 10));
  EXPECT_FALSE(WasTrainedOn(order, 11));
}

TEST(DataOrderTest, StepsAfterTheEndOfARunDoNotCount) {
  const std::vector<int64_t> all = StepsOf(FourPasses(), {}, 4);
  v1::Run early = FourPasses();
  early.mutable_latest()->set_step(all[1]);
  EXPECT_THAT(StepsOf(early, {}, 4), ElementsAre(all[0], all[1])) << "it stopped early";
  early.clear_latest();
  EXPECT_THAT(StepsOf(early, {}, 4), IsEmpty()) << "it has not begun";
}

}  // namespace data_order_test
}  // namespace braid
