#include "trainer/weight_check.h"

#include <bit>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_state.h"

namespace braid {
namespace weight_check_test {

using testing::AllOf;
using testing::HasSubstr;

void FlipBit(float* value, int bit) {
  auto bits = std::bit_cast<uint32_t>(*value);
  *value = std::bit_cast<float>(bits ^ (1u << bit));
}

class WeightCheckTest : public testing::Test {
 protected:
  WeightCheckTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  std::filesystem::path dataset_;
};

TEST_F(WeightCheckTest, EqualWeightsPass) {
  const v1::RunSpec spec = TinySpec(dataset_, 8);
  const auto statuses = RunThreadedRanks(3, [&](Communicator& ranks) {
    return CompareWeights(4, *InitialState(spec, 0)->model, ranks);
  });
  EXPECT_THAT(statuses, testing::Each(absl::OkStatus()));
}

TEST_F(WeightCheckTest, NamesRankParameterStepAndBothHashesOnEveryRank) {
  v1::RunSpec spec = TinySpec(dataset_, 8);
  const auto statuses = RunThreadedRanks(3, [&](Communicator& ranks) {
    auto model = std::move(InitialState(spec, 0)->model);
    if (ranks.rank() == 2) FlipBit(&model->parameters()[5].value[3], 0);
    return CompareWeights(4, *model, ranks);
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status, statuses[0]);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("after step 4 "), HasSubstr("rank 2 (hash "),
                      HasSubstr("differs from rank 0 (hash "),
                      HasSubstr("model.layers.0.self_attn.o_proj.weight on rank 2")));
  }
}

TEST_F(WeightCheckTest, AnyBitOfAnyWeightCounts) {
  const v1::RunSpec spec = TinySpec(dataset_, 8);
  const auto statuses = RunThreadedRanks(2, [&](Communicator& ranks) {
    auto model = std::move(InitialState(spec, 0)->model);
    const size_t size = model->values().size();
    for (int i = 0; i < 100; ++i) {
      float* const value = &model->values()[(size - 1) * i / 99];
      if (ranks.rank() == 1) FlipBit(value, i % 32);
      if (CompareWeights(0, *model, ranks).ok()) return absl::InternalError("not seen");
      if (ranks.rank() == 1) FlipBit(value, i % 32);
    }
    return CompareWeights(0, *model, ranks);
  });
  EXPECT_THAT(statuses, testing::Each(absl::OkStatus()));
}

// Trains two ranks that compare weights every 6 steps. On rank 1, bit 12 of the first or the last
// weight, which belong to rank 0 and rank 1, flips after step `step`.
std::vector<absl::Status> TrainWithAFlippedBit(const RunDirectory& run, v1::RunSpec spec,
                                               int64_t step, bool first) {
  spec.set_world_size(2);
  spec.set_weight_check_every_steps(6);
  std::ostringstream out;
  return RunThreadedRanks(2, [&](Communicator& ranks) {
    TrainingLoop* running = nullptr;
    LoopEnvironment environment;
    environment.communicator = &ranks;
    environment.now = StepClock();
    environment.out = &out;
    environment.stop_requested = [&] {
      if (ranks.rank() == 1 && running->step() == step) {
        const std::span<float> values = running->state().model->values();
        FlipBit(first ? &values.front() : &values.back(), 12);
      }
      return false;
    };
    TrainingLoop loop(run, spec, environment);
    running = &loop;
    return loop.Run().status();
  });
}

TEST_F(WeightCheckTest, TheLoopStopsOnAllRanksBeforeTheUpdate) {
  for (const auto sharding : {v1::ZERO_1, v1::REPLICATED}) {
    for (const bool first : {true, false}) {
      v1::RunSpec spec = TinySpec(dataset_, 20);
      spec.set_optimizer_sharding(sharding);
      RunDirectory run(NewDirectory("run"));
      for (const absl::Status& status : TrainWithAFlippedBit(run, spec, 5, first)) {
        EXPECT_THAT(std::string(status.message()),
                    AllOf(HasSubstr("after step 5 "), HasSubstr("rank 1 (hash "),
                          HasSubstr(first ? "embed_tokens" : "lm_head")));
      }
      EXPECT_EQ(run.ReadNewestMetrics()->step(), 5);
    }
  }
}

// When sharded, the other rank would receive the flipped bit at once; when replicated, it stays on
// one rank until the comparison.
TEST_F(WeightCheckTest, AFlipBetweenComparisonsIsReportedToo) {
  v1::RunSpec spec = TinySpec(dataset_, 20);
  RunDirectory sharded(NewDirectory("run")), replicated(NewDirectory("run"));
  spec.set_optimizer_sharding(v1::ZERO_1);
  EXPECT_THAT(std::string(TrainWithAFlippedBit(sharded, spec, 8, false)[1].message()),
              AllOf(HasSubstr("after step 8 "), HasSubstr("lm_head.weight on rank 1 (hash ")));
  spec.set_optimizer_sharding(v1::REPLICATED);
  EXPECT_THAT(std::string(TrainWithAFlippedBit(replicated, spec, 8, false)[1].message()),
              AllOf(HasSubstr("after step 11 "), HasSubstr("rank 1 (hash ")));
}

}  // namespace weight_check_test
}  // namespace braid
