// Compares several ranks, as threads of one process, with one rank: the same batches and the same
// losses, with every kind of sharding and reduction.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "runs/run_spec.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_loop.h"

namespace braid {
namespace data_parallel_test {

constexpr int64_t kSteps = 20;

class DataParallelTest : public testing::Test {
 protected:
  DataParallelTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  static LoopEnvironment Environment(Communicator& ranks, std::ostream& out) {
    LoopEnvironment environment;
    environment.communicator = &ranks;
    environment.now = StepClock();
    environment.out = &out;
    return environment;
  }

  RunDirectory Trained(const v1::RunSpec& spec) {
    RunDirectory run(NewDirectory("run"));
    std::ostringstream out;
    SetModelThreads(1);
    const auto results = RunThreadedRanks(spec.world_size(), [&](Communicator& ranks) {
      return TrainingLoop(run, spec, Environment(ranks, out)).Run().status();
    });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
    return run;
  }

  v1::RunSpec DenseSpec() {
    v1::RunSpec spec = TinySpec(dataset_, kSteps);
    *spec.mutable_model() = DenseCounterpart(spec.model());
    spec.clear_upcycling();
    return *ResolveRunSpec(spec);
  }

  // Grouped queries with biases, experts, and logits with a bound and a z-loss.
  v1::RunSpec GroupedSpec() {
    v1::RunSpec spec = TinySpec(dataset_, kSteps);
    spec.mutable_model()->set_num_heads(4);
    spec.mutable_model()->set_num_key_value_heads(2);
    spec.mutable_model()->set_qkv_bias(true);
    spec.mutable_model()->set_logit_soft_cap(5);
    spec.mutable_model()->set_z_loss(0.01);
    return *ResolveRunSpec(spec);
  }

  void ExpectTheCurveOf(const RunDirectory& alone, const RunDirectory& together) {
    const auto expected = *alone.ReadMetrics(0), got = *together.ReadMetrics(0);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i].loss(), expected[i].loss(), 1e-5 * expected[i].loss()) << i;
      EXPECT_NEAR(got[i].gradient_norm(), expected[i].gradient_norm(), 1e-4) << i;
      EXPECT_EQ(got[i].num_tokens(), expected[i].num_tokens());
    }
    ASSERT_EQ(got.back().routing_size(), expected.back().routing_size());
    for (int i = 0; i < got.back().routing_size(); ++i) {
      EXPECT_NEAR(got.back().routing(i).entropy(), expected.back().routing(i).entropy(), 1e-3);
    }
  }

  std::filesystem::path dataset_;
};

std::string Describe(const v1::RunSpec& spec) {
  return absl::StrCat(v1::OptimizerSharding_Name(spec.optimizer_sharding()), " on ",
                      spec.world_size(), " ranks",
                      spec.reduction().after_backward() ? ", after backward" : "");
}

// Buckets of one kilobyte give about fifty per step.
v1::RunSpec Variant(v1::RunSpec spec, int world_size, v1::OptimizerSharding sharding,
                    bool after_backward) {
  spec.set_world_size(world_size);
  spec.set_optimizer_sharding(sharding);
  spec.mutable_reduction()->set_bucket_bytes(1024);
  spec.mutable_reduction()->set_after_backward(after_backward);
  // Rank 0 accumulates over more micro-batches than the others.
  spec.mutable_batch()->set_micro_batch_size(1);
  return spec;
}

// Threads sum in rank order, so sharding does not change any bit.
void ExpectSameBits(const RunDirectory& a, const RunDirectory& b, const std::string& what) {
  EXPECT_EQ(LossLines(a), LossLines(b)) << what;
  EXPECT_EQ(NewestWeights(a), NewestWeights(b)) << what;
}

TEST_F(DataParallelTest, AnyNumberOfRanksGivesTheCurveOfOne) {
  for (const v1::RunSpec& base : {TinySpec(dataset_, kSteps), DenseSpec(), GroupedSpec()}) {
    const RunDirectory alone = Trained(base);
    for (const int world_size : {2, 3, 4}) {
      const v1::RunSpec spec = Variant(base, world_size, v1::ZERO_1, false);
      const RunDirectory together = Trained(spec);
      ExpectTheCurveOf(alone, together);
      EXPECT_EQ(together.ReadHeartbeats().size(), static_cast<size_t>(world_size));
      for (const bool after_backward : {false, true}) {
        for (const auto sharding : {v1::REPLICATED, v1::ZERO_1}) {
          if (sharding == v1::ZERO_1 && !after_backward) continue;
          const v1::RunSpec other = Variant(base, world_size, sharding, after_backward);
          ExpectSameBits(together, Trained(other), Describe(other));
        }
      }
    }
  }
}

TEST_F(DataParallelTest, SameSeedGivesTheSameBitsOnSeveralRanks) {
  const v1::RunSpec spec = Variant(TinySpec(dataset_, kSteps), 3, v1::ZERO_1, false);
  const RunDirectory first = Trained(spec);
  for (int repeat = 0; repeat < 3; ++repeat) ExpectSameBits(first, Trained(spec), "again");
}

TEST_F(DataParallelTest, EveryRankKeepsItsShareOfTheMoments) {
  for (const int world_size : {1, 2, 3, 4}) {
    const v1::RunSpec spec = Variant(TinySpec(dataset_, 8), world_size, v1::ZERO_1, false);
    RunDirectory run(NewDirectory("run"));
    std::ostringstream out;
    std::vector<size_t> kept(world_size);
    size_t size = 0;
    const auto results = RunThreadedRanks(world_size, [&](Communicator& ranks) {
      TrainingLoop loop(run, spec, Environment(ranks, out));
      const absl::Status status = loop.Run().status();
      TrainingState& state = loop.state();
      EXPECT_TRUE(state.upcycled);
      EXPECT_EQ(state.m.capacity(), state.moments.size());
      EXPECT_EQ(state.v.capacity(), state.moments.size());
      kept[ranks.rank()] = state.m.size();
      if (ranks.rank() == 0) size = state.model->values().size();
      return status;
    });
    EXPECT_THAT(results, testing::Each(absl::OkStatus()));
    size_t sum = 0;
    for (const size_t part : kept) {
      EXPECT_LE(part, (size + world_size - 1) / world_size + kShardAlignment);
      sum += part;
    }
    EXPECT_EQ(sum, size);
  }
}

// The shard of the first rank is then everything, and that of the second is nothing.
TEST_F(DataParallelTest, RanksThatTrainNoMoreThanOneLineOfValuesMakeTheSameCalls) {
  const RunDirectory base = TinyBase(dataset_);
  v1::RunSpec spec = TinyAdapterSpec(dataset_, base, 6);
  spec.clear_finetuning();
  spec.mutable_finetuning()->add_train("model.norm.weight");
  spec = ResolveRunSpec(spec).value();
  const RunDirectory alone = Trained(spec);
  EXPECT_NE(alone.ReadMetrics(0)->front().loss(), alone.ReadMetrics(0)->back().loss());
  const RunDirectory together = Trained(Variant(spec, 2, v1::ZERO_1, false));
  ExpectTheCurveOf(alone, together);
  const v1::RunSpec replicated = Variant(spec, 2, v1::REPLICATED, false);
  ExpectSameBits(together, Trained(replicated), Describe(replicated));
}

// Token 63 has an embedding that is not finite; only rank 1 reads it, in its second sequence.
RankBatch WorkWithBadToken(int rank) {
  RankBatch work;
  work.step = 8;
  const std::vector<std::vector<int32_t>> sequences = {{3, 4, 5, 6}, {3, rank == 1 ? 63 : 7, 5, 6}};
  work.instances = rank == 1 ? std::vector<int64_t>{12, 21} : std::vector<int64_t>{5, 6};
  work.batch = MakeBatch(sequences, 32, 2);
  return work;
}

TEST_F(DataParallelTest, EveryRankReportsTheRankWithTheBadInstance) {
  for (const auto sharding : {v1::ZERO_1, v1::REPLICATED}) {
    for (const bool after_backward : {false, true}) {
      const v1::RunSpec spec = Variant(TinySpec(dataset_, 4), 2, sharding, after_backward);
      const auto results = RunThreadedRanks(2, [&](Communicator& ranks) {
        auto state = *InitialState(spec, ranks.rank());
        auto reducer = *GradientReducer::Create(sharding, spec.reduction(), ranks);
        state.model->parameters()[0].value[63 * 16] = std::nanf("");
        const std::vector<float> before(state.model->values().begin(), state.model->values().end());
        const RankBatch work = WorkWithBadToken(ranks.rank());
        const auto pass = ComputeGradients(work, false, *state.model, *reducer, ranks);
        EXPECT_EQ(std::memcmp(before.data(), state.model->values().data(), before.size() * 4), 0);
        return pass.status();
      });
      for (const absl::Status& status : results) {
        EXPECT_THAT(std::string(status.message()),
                    testing::HasSubstr("step 9, rank 1: the loss is not finite on instances 21;"));
      }
    }
  }
}

// BATCH_MEAN makes the loss of every rank not finite.
TEST_F(DataParallelTest, ADecisionOfAllRanksDoesNotHideTheRankWithTheBadInstance) {
  for (const auto decision : {v1::LayerMixing::BATCH_MEAN, v1::LayerMixing::BATCH_MODE}) {
    v1::RunSpec spec = Variant(TinyDenseSpec(dataset_, 4), 2, v1::ZERO_1, false);
    v1::LayerMixing* const mixing = spec.mutable_model()->mutable_layer_mixing();
    mixing->set_alpha(0.7);
    mixing->set_gate(v1::LayerMixing::LEARNED);
    mixing->set_weight(v1::LayerMixing::PROBABILITY);
    mixing->set_decision(decision);
    spec.mutable_batch()->set_micro_batch_size(2);
    spec = ResolveRunSpec(spec).value();
    const auto results = RunThreadedRanks(2, [&](Communicator& ranks) {
      auto state = *InitialState(spec, ranks.rank());
      auto reducer = *GradientReducer::Create(v1::ZERO_1, spec.reduction(), ranks);
      state.model->parameters()[0].value[63 * 16] = std::nanf("");
      RankBatch work = WorkWithBadToken(ranks.rank());
      work.micro_batch_size = 2;
      return ComputeGradients(work, false, *state.model, *reducer, ranks).status();
    });
    for (const absl::Status& status : results) {
      EXPECT_THAT(std::string(status.message()),
                  testing::HasSubstr("step 9, rank 1: the loss is not finite on instances 12, 21;"))
          << v1::LayerMixing::Decision_Name(decision);
    }
  }
}

// Scales weights so that the loss stays finite and the FFN's gradients overflow.
void MakeGradientsOverflow(LanguageModel& model) {
  const auto scale = [](const Parameter& p, float factor) {
    for (float& x : p.value) x *= factor;
  };
  for (const Parameter& p : model.parameters()) {
    const auto named = [&](const char* part) { return p.name.find(part) != p.name.npos; };
    if (named("post_attention_layernorm")) scale(p, 1e37f);
    if (named("gate_proj") || named("up_proj")) scale(p, 1e-37f);
    if (named("lm_head")) scale(p, 1e6f);
  }
}

TEST_F(DataParallelTest, AGradientThatOverflowsIsNamedToo) {
  for (const auto sharding : {v1::ZERO_1, v1::REPLICATED}) {
    const v1::RunSpec spec = Variant(TinySpec(dataset_, 4), 2, sharding, false);
    const auto results = RunThreadedRanks(2, [&](Communicator& ranks) {
      auto state = *InitialState(spec, ranks.rank());
      auto reducer = *GradientReducer::Create(sharding, spec.reduction(), ranks);
      MakeGradientsOverflow(*state.model);
      const RankBatch work = WorkWithBadToken(/*rank=*/0);
      return ComputeGradients(work, false, *state.model, *reducer, ranks).status();
    });
    for (const absl::Status& status : results) {
      EXPECT_THAT(std::string(status.message()),
                  testing::HasSubstr("step 9, rank 0: the gradient is not finite on instances 5;"));
    }
  }
}

}  // namespace data_parallel_test
}  // namespace braid
