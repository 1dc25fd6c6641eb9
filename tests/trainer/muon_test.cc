#include "trainer/muon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/splitmix.h"
#include "model/kernels/orthogonalize.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/weight_update.h"

namespace braid {
namespace muon_test {

using testing::HasSubstr;

class MuonTest : public testing::Test {
 protected:
  MuonTest() : dataset_(NewDirectory("data")) {
    WriteTinyDataset(dataset_);
    SetModelThreads(1);
  }

  v1::RunSpec Spec(int64_t steps) {
    v1::RunSpec spec = TinySpec(dataset_, steps);
    spec.mutable_optimizer()->set_algorithm(v1::MUON);
    return *ResolveRunSpec(spec);
  }

  static double LastLoss(const RunDirectory& run) { return run.ReadMetrics(0)->back().loss(); }

  std::filesystem::path dataset_;
};

float GradientOf(size_t i, int64_t step) {
  const uint64_t bits = Mix64(Mix64(7, i), static_cast<uint64_t>(step));
  return static_cast<float>(static_cast<int64_t>(bits % 2001) - 1000) * 1e-3f;
}

// Returns the weights after three steps with gradients that are a function of their places, of
// which a rank has its own shard only, as after a reduction.
std::vector<float> AfterThreeSteps(v1::RunSpec spec, int world_size,
                                   v1::OptimizerSharding sharding) {
  spec.set_world_size(world_size);
  spec.set_optimizer_sharding(sharding);
  spec.mutable_upcycling()->set_dense_fraction(0);
  std::vector<std::vector<float>> weights(world_size);
  const auto results = RunThreadedRanks(world_size, [&](Communicator& ranks) {
    TrainingState state = *InitialState(spec, ranks.rank());
    for (int64_t step = 0; step < 3; ++step) {
      const auto gradients = state.model->gradients();
      for (size_t i = 0; i < gradients.size(); ++i) {
        const bool own = i >= state.moments.begin && i < state.moments.end;
        gradients[i] = own ? GradientOf(i, step) : 1e30f;
      }
      const absl::Status status = UpdateWeights(spec.optimizer(), 0.01, 2.0, state, ranks);
      if (!status.ok()) return status;
    }
    const auto values = state.model->values();
    weights[ranks.rank()].assign(values.begin(), values.end());
    return absl::OkStatus();
  });
  EXPECT_THAT(results, testing::Each(absl::OkStatus()));
  for (const auto& other : weights) EXPECT_EQ(other, weights[0]);
  return weights[0];
}

TEST_F(MuonTest, ShardsThatCutMatricesChangeNoBit) {
  const v1::RunSpec spec = Spec(4);
  const std::vector<float> alone = AfterThreeSteps(spec, 1, v1::ZERO_1);
  for (const int ranks : {2, 3, 7}) {
    EXPECT_EQ(AfterThreeSteps(spec, ranks, v1::REPLICATED), alone) << ranks;
    EXPECT_EQ(AfterThreeSteps(spec, ranks, v1::ZERO_1), alone) << ranks;
  }
}

// Each matrix on its own, in double but for the orthogonal factor, whose oracle is in
// orthogonalize_test.
TEST_F(MuonTest, UpdatesAreThoseOfThePaper) {
  const v1::RunSpec spec = Spec(4);
  const v1::OptimizerConfig& config = spec.optimizer();
  TrainingState state = *InitialState(spec, 0);
  const auto matrices = MuonMatricesOf(state.model->config(), state.model->finetuning());
  // q, k, v, o, gate, up and down of two layers.
  ASSERT_EQ(matrices.size(), 14u);
  const std::vector<float> got = AfterThreeSteps(spec, 1, v1::ZERO_1);
  TrainingState experts = *InitialState(
      [&] {
        v1::RunSpec moe = spec;
        moe.mutable_upcycling()->set_dense_fraction(0);
        return moe;
      }(),
      0);
  size_t checked = 0;
  for (const Parameter& p : experts.model->parameters()) {
    const bool hidden = p.shape.size() > 1 && p.name.find("_proj") != p.name.npos;
    if (!hidden) continue;
    const int64_t rows = p.shape.end()[-2], columns = p.shape.end()[-1];
    const size_t size = rows * columns, offset = p.value.data() - experts.model->values().data();
    for (size_t begin = offset; begin < offset + p.value.size(); begin += size, ++checked) {
      std::vector<double> value(&experts.model->values()[begin],
                                &experts.model->values()[begin] + size);
      std::vector<double> momentum(size);
      for (int64_t step = 0; step < 3; ++step) {
        std::vector<float> update(size);
        for (size_t i = 0; i < size; ++i) {
          // Clipped from the norm 2 to 1.
          const double g = 0.5 * GradientOf(begin + i, step);
          momentum[i] = config.muon_momentum() * momentum[i] + g;
          update[i] = static_cast<float>(g + config.muon_momentum() * momentum[i]);
        }
        Orthogonalize(update, rows, columns);
        const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
        for (size_t i = 0; i < size; ++i) {
          value[i] = value[i] * (1 - 0.01 * config.weight_decay()) - 0.01 * scale * update[i];
        }
      }
      for (size_t i = 0; i < size; ++i) ASSERT_NEAR(got[begin + i], value[i], 2e-5) << p.name;
    }
  }
  EXPECT_EQ(checked, 2u * (4 + 3 * 4));
}

TEST_F(MuonTest, ResumeIsBitExactAndAnyNumberOfRanksGivesTheSameCurve) {
  const v1::RunSpec spec = Spec(12);
  const RunDirectory whole(NewDirectory("run")), stopped(NewDirectory("run"));
  ASSERT_TRUE(TrainAlone(whole, spec).ok());
  ASSERT_TRUE(TrainAlone(stopped, spec, /*stop_after=*/2).ok());
  ASSERT_TRUE(TrainAlone(stopped, spec, /*stop_after=*/6).ok());
  ASSERT_TRUE(TrainAlone(stopped, spec).ok());
  EXPECT_EQ(LossLines(stopped), LossLines(whole));
  EXPECT_EQ(NewestWeights(stopped), NewestWeights(whole));
  for (const auto sharding : {v1::ZERO_1, v1::REPLICATED}) {
    v1::RunSpec wide = spec;
    wide.set_world_size(3);
    wide.set_optimizer_sharding(sharding);
    const RunDirectory run(NewDirectory("run"));
    EXPECT_OK(TrainOnRanks(run, wide));
    EXPECT_NEAR(LastLoss(run), LastLoss(whole), 1e-4);
  }
}

// 4e-2 is the best of 5e-3, 1e-2, 2e-2 and 4e-2 for both.
TEST_F(MuonTest, LearnsMoreThanAdamwAtTheBestRate) {
  double losses[2];
  for (const bool muon : {false, true}) {
    v1::RunSpec spec = TinyDenseSpec(dataset_, 150);
    spec.mutable_optimizer()->set_learning_rate(4e-2);
    spec.mutable_optimizer()->set_algorithm(muon ? v1::MUON : v1::ADAMW);
    const RunDirectory run(NewDirectory("run"));
    ASSERT_TRUE(TrainAlone(run, *ResolveRunSpec(spec)).ok());
    const auto metrics = *run.ReadMetrics(0);
    losses[muon] = 0;
    for (size_t i = metrics.size() - 10; i < metrics.size(); ++i) {
      losses[muon] += metrics[i].loss() / 10;
    }
  }
  EXPECT_LT(losses[true], losses[false]);
}

TEST_F(MuonTest, SettingsThatCannotWorkAreRefusedByName) {
  v1::RunSpec spec = TinySpec(dataset_, 4);
  spec.mutable_optimizer()->set_muon_momentum(0.9);
  EXPECT_THAT(std::string(ResolveRunSpec(spec).status().message()),
              HasSubstr("optimizer.muon_momentum: got 0.9, expected nothing with algorithm ADAMW"));
  spec.mutable_optimizer()->set_algorithm(v1::MUON);
  EXPECT_EQ(ResolveRunSpec(spec)->optimizer().muon_momentum(), 0.9);
  spec.mutable_optimizer()->set_muon_momentum(1);
  EXPECT_THAT(std::string(ResolveRunSpec(spec).status().message()),
              HasSubstr("optimizer.muon_momentum: got 1, expected at least 0 and less than 1"));
  const RunDirectory base = TinyBase(dataset_);
  v1::RunSpec adapters = TinyAdapterSpec(dataset_, base, 4);
  adapters.mutable_optimizer()->set_algorithm(v1::MUON);
  EXPECT_THAT(std::string(ResolveRunSpec(adapters).status().message()),
              HasSubstr("optimizer.algorithm: got MUON for a run that trains no matrix"));
}

}  // namespace muon_test
}  // namespace braid
