// Runs whose batch grows: which steps read what, also after a resume, on several ranks, and in
// runs whose length is given in tokens or epochs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runs/batch_spec.h"
#include "runs/run_spec.h"
#include "runs/validation_spec.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace batch_growth_test {

using testing::HasSubstr;

class BatchGrowthTest : public testing::Test {
 protected:
  BatchGrowthTest() : dataset_(NewDirectory("data")) {
    // The last sequence is short.
    WriteTinyDataset(dataset_, {.num_instances = 200});
    SetModelThreads(1);
  }

  // Batches of 2, 2, 4, 4, 6, 6 and then 8 sequences.
  v1::RunSpec Asked(int64_t steps) {
    v1::RunSpec spec = TinyDenseSpec(dataset_, steps);
    spec.set_world_size(2);
    spec.mutable_batch()->set_global_batch_size(8);
    spec.mutable_batch()->set_micro_batch_size(3);
    spec.mutable_batch()->set_first_batch_size(2);
    spec.mutable_batch()->mutable_warmup()->set_steps(6);
    return spec;
  }

  static std::string ErrorOf(const v1::RunSpec& spec) {
    return std::string(ResolveRunSpec(spec).status().message());
  }

  static absl::Status Train(const RunDirectory& run, const v1::RunSpec& spec,
                            int64_t stop_after = -1) {
    return TrainOnRanks(run, spec, stop_after);
  }

  std::filesystem::path dataset_;
};

TEST_F(BatchGrowthTest, StepsReadWhatTheScheduleSaysAndResumeIsBitExact) {
  const v1::RunSpec spec = *ResolveRunSpec(Asked(10));
  const RunDirectory whole(NewDirectory("run")), stopped(NewDirectory("run"));
  ASSERT_TRUE(Train(whole, spec).ok());
  int64_t tokens = 0;
  const auto metrics = *whole.ReadMetrics(0);
  for (int64_t step = 0; step < 10; ++step) {
    tokens += 32 * std::vector{2, 2, 4, 4, 6, 6, 8, 8, 8, 8}[step];
    // One of the 200 sequences is short.
    EXPECT_NEAR(static_cast<double>(metrics[step].num_tokens()), static_cast<double>(tokens), 32);
  }
  for (const int64_t steps : {3, 2}) ASSERT_TRUE(Train(stopped, spec, steps).ok());
  ASSERT_TRUE(Train(stopped, spec).ok());
  EXPECT_EQ(LossLines(stopped), LossLines(whole));
  EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole));
}

TEST_F(BatchGrowthTest, LengthsInTokensAndEpochsCountTheSmallerBatches) {
  v1::RunSpec spec = Asked(10);
  spec.clear_num_steps();
  // One pass: 24 sequences in 6 steps and 176 in 22.
  EXPECT_EQ(ResolveRunSpec(spec)->num_steps(), 28);
  spec.mutable_length()->set_tokens(32 * 25);
  EXPECT_EQ(ResolveRunSpec(spec)->num_steps(), 7);
  spec.mutable_length()->Clear();
  spec.mutable_length()->set_epochs(2);
  EXPECT_EQ(ResolveRunSpec(spec)->num_steps(), 53);
  spec.mutable_optimizer()->mutable_warmup()->set_tokens(32 * 8);
  EXPECT_EQ(ResolveRunSpec(spec)->optimizer().warmup().steps(), 3);
  // 2, 2, 2, 4, 4, 4, 6, 6, 6: the growth itself takes 36 sequences.
  spec.mutable_batch()->mutable_warmup()->Clear();
  spec.mutable_batch()->mutable_warmup()->set_tokens(32 * 36);
  EXPECT_EQ(ResolveRunSpec(spec)->batch().warmup().steps(), 9);
  // A share of a run whose length follows from it.
  spec.mutable_batch()->mutable_warmup()->Clear();
  spec.mutable_batch()->mutable_warmup()->set_fraction(0.5);
  const v1::RunSpec share = *ResolveRunSpec(spec);
  const BatchSchedule schedule = BatchScheduleOf(share);
  EXPECT_EQ(schedule.growth_steps, (share.num_steps() + 1) / 2);
  EXPECT_GE(schedule.Before(share.num_steps()), 400);
  EXPECT_LT(schedule.Before(share.num_steps() - 1), 400);
  EXPECT_EQ(ResolveRunSpec(share)->DebugString(), share.DebugString());
}

TEST_F(BatchGrowthTest, ImpossibleGrowthIsRefusedByName) {
  v1::RunSpec spec = Asked(10);
  spec.mutable_batch()->set_first_batch_size(3);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("batch.first_batch_size: got 3, expected a multiple of the "
                                       "ranks (world_size: 2)"));
  spec.mutable_batch()->set_first_batch_size(10);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("batch.first_batch_size: got 10, expected at most "
                                       "batch.global_batch_size, 8"));
  spec.mutable_batch()->clear_first_batch_size();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("batch.first_batch_size: got nothing"));
  spec = Asked(4);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("batch.warmup: got 6 steps, expected at most the run's 4"));
  spec.mutable_batch()->clear_warmup();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("batch.warmup: got nothing with batch.first_batch_size"));
}

// Against the sum of the batches, step by step.
TEST_F(BatchGrowthTest, ValidationsByTokensFollowTheBatch) {
  v1::RunSpec spec = Asked(10);
  for (const int64_t interval : {1, 5, 8, 16, 1000}) {
    spec.mutable_validation()->mutable_every()->set_tokens(static_cast<double>(32 * interval));
    const v1::RunSpec resolved = *ResolveRunSpec(*ResolveRunSpec(spec));
    int64_t sequences = 0;
    for (int64_t step = 1; step <= 10; ++step) {
      const int64_t before = sequences / interval;
      sequences += BatchScheduleOf(resolved).At(step - 1);
      EXPECT_EQ(ValidationIsDue(resolved, step), sequences / interval > before || step == 10)
          << interval << " " << step;
    }
  }
  spec.mutable_validation()->mutable_every()->set_tokens(32 * 16);
  spec = *ResolveRunSpec(spec);
  EXPECT_THAT(ValidationCostText(spec, 4), HasSubstr("4 windows every 512 tokens"));
  const RunDirectory run(NewDirectory("run"));
  ASSERT_TRUE(Train(run, spec).ok());
  std::vector<int64_t> steps;
  for (const v1::StepMetrics& step : MetricsOf(run)) {
    if (step.has_validation()) steps.push_back(step.step());
  }
  EXPECT_THAT(steps, testing::ElementsAre(5, 7, 9, 10));
}

}  // namespace batch_growth_test
}  // namespace braid
