// Compares forecasts with real runs: memory of the state, bytes that ranks send.
#include "runs/forecast.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <sstream>

#include "model/config/model_config.h"
#include "runs/run_spec.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/parallel/threaded_communicator.h"
#include "tests/trainer/tiny_run.h"
#include "trainer/training_loop.h"

namespace braid {
namespace forecast_test {

// Counts the bytes of floats that this rank sends with the cheapest algorithm for each call: a ring
// for results on all ranks, one transfer to the root for a sum on one rank.
class CountingCommunicator final : public Communicator {
 public:
  CountingCommunicator(Communicator* ranks, std::shared_ptr<std::atomic<double>> sent)
      : ranks_(ranks), sent_(std::move(sent)) {}

  int rank() const override { return ranks_->rank(); }
  int world_size() const override { return ranks_->world_size(); }
  absl::Status AllReduceSum(std::span<float> values) override {
    Count(2 * OthersShare(values));
    return ranks_->AllReduceSum(values);
  }
  absl::Status AllReduceSum(std::span<double> values) override {
    return ranks_->AllReduceSum(values);
  }
  absl::Status ReduceSum(std::span<float> values, int root) override {
    if (root != rank()) Count(static_cast<double>(values.size_bytes()));
    return ranks_->ReduceSum(values, root);
  }
  absl::Status AllGatherShards(std::span<float> values) override {
    Count(OthersShare(values));
    return ranks_->AllGatherShards(values);
  }
  absl::Status Broadcast(std::span<char> bytes, int root) override {
    return ranks_->Broadcast(bytes, root);
  }
  absl::Status Barrier() override { return ranks_->Barrier(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() override {
    auto second = ranks_->Duplicate();
    if (!second.ok()) return second.status();
    auto counting = std::make_unique<CountingCommunicator>(second->get(), sent_);
    counting->owned_ = *std::move(second);
    return counting;
  }
  void Abort(int exit_code) override { ranks_->Abort(exit_code); }

 private:
  double OthersShare(std::span<float> values) const {
    return static_cast<double>(values.size_bytes()) * (world_size() - 1) / world_size();
  }
  void Count(double bytes) { sent_->fetch_add(bytes); }

  Communicator* ranks_;
  std::unique_ptr<Communicator> owned_;
  std::shared_ptr<std::atomic<double>> sent_;
};

struct Measured {
  double sent_bytes = 0;  // by an average rank in one step
  int64_t weight_bytes = 0, gradient_bytes = 0;
  int64_t moment_bytes = 0;  // for rank 0
};

class ForecastTest : public testing::Test {
 protected:
  ForecastTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  v1::RunSpec Spec(int world_size, v1::OptimizerSharding sharding, bool dense) {
    v1::RunSpec spec = TinySpec(dataset_, 5);
    spec.mutable_model()->mutable_routing()->set_num_experts(dense ? 1 : 4);
    if (dense) *spec.mutable_model() = DenseCounterpart(spec.model());
    spec.mutable_upcycling()->set_dense_fraction(0);  // one model from start to end
    spec.set_world_size(world_size);
    spec.set_optimizer_sharding(sharding);
    spec.set_weight_check_every_steps(0);
    spec.set_routing_every_steps(1000);
    return ResolveRunSpec(spec).value();
  }

  Measured Train(const v1::RunSpec& spec) {
    const RunDirectory run(NewDirectory("run"));
    const auto sent = std::make_shared<std::atomic<double>>(0);
    Measured measured;
    std::ostringstream out;
    SetModelThreads(1);
    const auto results = RunThreadedRanks(spec.world_size(), [&](Communicator& ranks) {
      CountingCommunicator counting(&ranks, sent);
      LoopEnvironment environment;
      environment.communicator = &counting;
      environment.now = StepClock();
      environment.out = &out;
      TrainingLoop loop(run, spec, environment);
      const absl::Status status = loop.Run().status();
      if (ranks.rank() != 0) return status;
      TrainingState& state = loop.state();
      measured.weight_bytes = static_cast<int64_t>(state.model->values().size_bytes());
      measured.gradient_bytes = static_cast<int64_t>(state.model->gradients().size_bytes());
      measured.moment_bytes = static_cast<int64_t>(4 * (state.m.size() + state.v.size()));
      return status;
    });
    for (const absl::Status& status : results) EXPECT_OK(status);
    measured.sent_bytes = *sent / spec.world_size() / static_cast<double>(spec.num_steps());
    return measured;
  }

  static v1::Forecast Foresee(const v1::RunSpec& spec) {
    v1::ForecastRequest request;
    *request.mutable_finetuning() = spec.finetuning();
    request.set_world_size(spec.world_size());
    request.set_global_batch_size(spec.batch().global_batch_size());
    return ForecastTraining(spec.model(), request).value();
  }

  std::filesystem::path dataset_;
};

TEST_F(ForecastTest, MemoryAndMessagesAreThoseOfRuns) {
  for (const bool dense : {true, false}) {
    for (const int world_size : {1, 2, 3}) {
      for (const auto sharding : {v1::REPLICATED, v1::ZERO_1}) {
        const v1::RunSpec spec = Spec(world_size, sharding, dense);
        SCOPED_TRACE(spec.ShortDebugString());
        const Measured measured = Train(spec);
        const v1::Forecast forecast = Foresee(spec);
        EXPECT_EQ(forecast.weight_bytes(), measured.weight_bytes);
        EXPECT_EQ(forecast.gradient_bytes(), measured.gradient_bytes);
        const bool sharded = sharding == v1::ZERO_1;
        EXPECT_EQ(sharded ? forecast.moment_bytes_zero_1() : forecast.moment_bytes(),
                  measured.moment_bytes);
        const double sent = sharded ? forecast.zero_1_bytes() : forecast.all_reduce_bytes();
        EXPECT_NEAR(measured.sent_bytes, sent, 0.1 * sent);
      }
    }
  }
}

TEST_F(ForecastTest, OnlyTrainedParametersHaveGradientsAndMoments) {
  const std::filesystem::path answers = NewDirectory("answers");
  WriteTinySupervised(answers, TinyExamples(12), 3);
  v1::RunSpec spec = TinyAdapterSpec(answers, TinyBase(dataset_), 2);
  for (const int world_size : {1, 3}) {
    spec.set_world_size(world_size);
    const Measured measured = Train(spec);
    const v1::Forecast forecast = Foresee(spec);
    EXPECT_EQ(forecast.weight_bytes(), measured.weight_bytes);
    EXPECT_EQ(forecast.gradient_bytes(), measured.gradient_bytes);
    EXPECT_EQ(forecast.gradient_bytes(), 4 * forecast.num_trained_parameters());
    EXPECT_EQ(forecast.moment_bytes_zero_1(), measured.moment_bytes);
    EXPECT_LT(2 * forecast.gradient_bytes(), forecast.weight_bytes());
  }
}

v1::ModelConfig Preset(const std::string& name) {
  v1::ModelConfig config;
  config.set_preset(name);
  return ResolveModelConfig(config).value();
}

// By hand: 1.5B/32E has 29.5e9 parameters of 4 bytes.
TEST(ForecastArithmeticTest, LargeModelByHand) {
  v1::ForecastRequest request;
  request.set_world_size(64);
  const v1::ModelConfig model = Preset("1.5B/32E");
  ASSERT_OK_AND_ASSIGN(const v1::Forecast forecast, ForecastTraining(model, request));
  const auto parameters = static_cast<double>(DescribeModel(model).num_parameters());
  EXPECT_EQ(forecast.request().global_batch_size(), 64);
  EXPECT_EQ(static_cast<double>(forecast.weight_bytes()), 4 * parameters);
  EXPECT_EQ(static_cast<double>(forecast.moment_bytes()), 8 * parameters);
  EXPECT_NEAR(static_cast<double>(forecast.moment_bytes_zero_1()), 8 * parameters / 64, 1e3);
  EXPECT_NEAR(forecast.all_reduce_bytes(), 8 * parameters * 63 / 64, 1);
  EXPECT_NEAR(forecast.zero_1_bytes(), forecast.all_reduce_bytes(), 1);
  EXPECT_EQ(forecast.total_bytes(), forecast.weight_bytes() + forecast.gradient_bytes() +
                                        forecast.moment_bytes() + forecast.activation_bytes());
  EXPECT_EQ(forecast.step_seconds(), 0);
}

// TinyLlama with adapters of rank 8 on q and v: 22 layers of 8 (2048 + 2048) + 8 (2048 + 256). A
// checkpoint holds them and their moments, 12 bytes each.
TEST(ForecastArithmeticTest, AdaptersOfALargeModelByHand) {
  v1::ModelConfig model;
  model.set_num_layers(22);
  model.set_d_model(2048);
  model.set_num_heads(32);
  model.set_num_key_value_heads(4);
  model.set_d_ff(5632);
  model.set_vocab_size(32000);
  model.set_sequence_length(2048);
  ASSERT_OK_AND_ASSIGN(model, ResolveModelConfig(model));
  const int64_t parameters = DescribeModel(model).num_parameters();
  EXPECT_EQ(parameters, 1100048384);
  v1::ForecastRequest request;
  request.mutable_finetuning()->mutable_lora()->set_rank(8);
  ASSERT_OK_AND_ASSIGN(const v1::Forecast forecast, ForecastTraining(model, request));
  const int64_t trained = forecast.num_trained_parameters();
  EXPECT_EQ(trained, 22 * (8 * (2048 + 2048) + 8 * (2048 + 256)));
  EXPECT_LT(12 * trained, 40'000'000) << "bytes of a checkpoint";
  const int64_t beyond = forecast.total_bytes() - 4 * parameters - forecast.activation_bytes();
  EXPECT_EQ(beyond, 16 * trained);
  EXPECT_LT(static_cast<double>(beyond), 0.02 * 4 * static_cast<double>(parameters));
}

TEST(ForecastArithmeticTest, GradientReductionOverlapsWithTheLastBackwardPass) {
  v1::ForecastRequest request;
  request.set_world_size(4);
  request.set_global_batch_size(16);
  request.set_gflops_per_rank(100);
  const v1::ModelConfig model = Preset("tiny");
  ASSERT_OK_AND_ASSIGN(const v1::Forecast alone, ForecastTraining(model, request));
  EXPECT_NEAR(alone.compute_seconds(), 4 * 512 * DescribeModel(model).flops_per_token() / 100e9,
              1e-9);
  EXPECT_EQ(alone.step_seconds(), alone.compute_seconds());
  // Four passes; backward is two thirds of one.
  const double backward = alone.compute_seconds() / 4 * 2 / 3;
  // Gradients take half as long as they may, then twice.
  for (const double factor : {0.5, 2.0}) {
    request.set_link_bytes_per_second(alone.zero_1_bytes() / 2 / (factor * backward));
    ASSERT_OK_AND_ASSIGN(const v1::Forecast linked, ForecastTraining(model, request));
    EXPECT_NEAR(linked.communication_seconds(), 2 * factor * backward, 1e-9);
    const double shown = factor * backward + std::max(0.0, factor - 1) * backward;
    EXPECT_NEAR(linked.step_seconds(), alone.compute_seconds() + shown, 1e-9);
  }
}

TEST(ForecastArithmeticTest, TheCacheCountsTheSecondPassesOfMixedLayers) {
  v1::ModelConfig model;
  model.set_num_layers(4);
  model.set_d_model(64);
  model.set_num_heads(4);
  model.set_num_key_value_heads(2);
  model.set_sequence_length(128);
  const auto bytes = [](const v1::ModelConfig& asked) {
    return ForecastTraining(ResolveModelConfig(asked).value(), {})->cache_bytes();
  };
  const int64_t layer = int64_t{2} * 2 * 16 * 128 * 4;  // K and V, heads, head width, L, bytes
  EXPECT_EQ(bytes(model), 4 * layer);
  model.mutable_layer_mixing();
  EXPECT_EQ(bytes(model), 8 * layer);
  model.mutable_layer_mixing()->set_num_chosen(2);
  EXPECT_EQ(bytes(model), 12 * layer);
  model.mutable_layer_mixing()->set_gate(v1::LayerMixing::OWN_LAYER);
  model.mutable_layer_mixing()->clear_num_chosen();
  EXPECT_EQ(bytes(model), 4 * layer);
  // A token may choose any layer, and one that begins late reads the inputs of the earlier ones.
  model.mutable_layer_mixing()->set_gate(v1::LayerMixing::LEARNED);
  model.mutable_layer_mixing()->set_decision(v1::LayerMixing::TOKEN);
  EXPECT_EQ(bytes(model), (4 + 4 * 3) * layer + int64_t{4} * 128 * 64 * 4);
}

v1::ModelConfig TokenChoiceModel() {
  v1::ModelConfig model;
  model.set_preset("tiny");
  model.set_d_ff(1024);
  model.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  model.mutable_routing()->set_num_experts(16);
  model.mutable_routing()->mutable_token()->set_active_experts(4);
  return ResolveModelConfig(model).value();
}

v1::Forecast WithActiveExperts(int active) {
  v1::ModelConfig model = TokenChoiceModel();
  model.mutable_routing()->mutable_token()->set_active_experts(active);
  v1::ForecastRequest request;
  request.set_gflops_per_rank(10);
  return ForecastTraining(model, request).value();
}

// From 8 to 16 experts in 500 steps: 12 in the mean over growing steps.
TEST(ForecastArithmeticTest, GrowingExpertsHaveTheMemoryOfMostAndTheWorkOfTheMean) {
  v1::ForecastRequest request;
  request.set_gflops_per_rank(10);
  request.mutable_growth()->set_first(8);
  request.mutable_growth()->set_last(16);
  request.set_num_steps(500);
  ASSERT_OK_AND_ASSIGN(v1::Forecast forecast, ForecastTraining(TokenChoiceModel(), request));
  const v1::Forecast fewest = WithActiveExperts(8), mean = WithActiveExperts(12),
                     most = WithActiveExperts(16);
  EXPECT_EQ(forecast.activation_bytes(), most.activation_bytes());
  EXPECT_EQ(forecast.total_bytes_zero_1(), most.total_bytes_zero_1());
  EXPECT_GT(forecast.activation_bytes(), mean.activation_bytes());
  // The first step has 8 experts, the last one not yet all of them.
  EXPECT_NEAR(forecast.step_flops() / mean.step_flops(), 1, 1e-3);
  EXPECT_NEAR(forecast.step_seconds() / mean.step_seconds(), 1, 1e-3);
  EXPECT_EQ(forecast.request().growth().until(), 1);
  // Half of the steps have all experts already.
  request.mutable_growth()->set_until(0.5);
  ASSERT_OK_AND_ASSIGN(forecast, ForecastTraining(TokenChoiceModel(), request));
  EXPECT_NEAR(forecast.step_flops() / (mean.step_flops() + most.step_flops()), 0.5, 1e-3);
  request.mutable_growth()->set_last(8);
  ASSERT_OK_AND_ASSIGN(forecast, ForecastTraining(TokenChoiceModel(), request));
  EXPECT_NEAR(forecast.step_flops() / fewest.step_flops(), 1, 1e-12);
  EXPECT_EQ(forecast.activation_bytes(), fewest.activation_bytes());
}

TEST(ForecastArithmeticTest, ANumberOfExpertsThatDoesNotGrowIsTheModels) {
  v1::ForecastRequest request;
  request.mutable_growth()->set_first(0);
  ASSERT_OK_AND_ASSIGN(const v1::Forecast forecast, ForecastTraining(TokenChoiceModel(), request));
  EXPECT_EQ(forecast.step_flops(), WithActiveExperts(4).step_flops());
  EXPECT_EQ(forecast.activation_bytes(), WithActiveExperts(4).activation_bytes());
}

TEST(ForecastArithmeticTest, BadGrowthIsNamed) {
  v1::ForecastRequest request;
  request.mutable_growth()->set_first(8);
  EXPECT_FAILS(ForecastTraining(TokenChoiceModel(), request), absl::StatusCode::kInvalidArgument,
               "forecast.num_steps: got 0");
  request.set_num_steps(10);
  EXPECT_FAILS(ForecastTraining(Preset("tiny"), request), absl::StatusCode::kInvalidArgument,
               "growth.first: got 8", "expected model.routing.router: TOKEN_CHOICE, not ");
  request.mutable_growth()->set_last(17);
  EXPECT_FAILS(ForecastTraining(TokenChoiceModel(), request), absl::StatusCode::kInvalidArgument,
               "growth.last: got 17");
}

// The head of "tiny" has 2 V D products a position, three times with both backward ones.
TEST(ForecastArithmeticTest, PositionsWithoutTargetNeedNoHead) {
  const v1::ModelConfig model = Preset("tiny");
  v1::ForecastRequest request;
  ASSERT_OK_AND_ASSIGN(const v1::Forecast all, ForecastTraining(model, request));
  EXPECT_EQ(all.request().target_share(), 1);
  request.set_target_share(0.25);
  ASSERT_OK_AND_ASSIGN(const v1::Forecast quarter, ForecastTraining(model, request));
  const double head = 3.0 * 2 * model.vocab_size() * model.d_model() * model.sequence_length();
  EXPECT_NEAR(all.step_flops() - quarter.step_flops(), 0.75 * head, 1e-6 * head);
  EXPECT_EQ(all.total_bytes(), quarter.total_bytes());
}

// "tiny" has 2 * 2 D products a key, for scores and values, three times with both backward ones.
TEST(ForecastArithmeticTest, PositionsThatSeeFewerKeysNeedLessAttention) {
  const v1::ModelConfig model = Preset("tiny");
  const double length = model.sequence_length();
  v1::ForecastRequest request;
  ASSERT_OK_AND_ASSIGN(const v1::Forecast open, ForecastTraining(model, request));
  EXPECT_EQ(open.request().mean_visible_keys(), 0.5 * length);
  request.set_mean_visible_keys(0.125 * length);
  ASSERT_OK_AND_ASSIGN(const v1::Forecast documents, ForecastTraining(model, request));
  const double a_key = 3.0 * 2 * 2 * model.d_model() * model.num_layers() * length;
  EXPECT_NEAR(open.step_flops() - documents.step_flops(), 0.375 * length * a_key,
              1e-6 * length * a_key);
  EXPECT_EQ(open.total_bytes(), documents.total_bytes());
}

TEST(ForecastArithmeticTest, TheLargestBatchDoesNotOverflow) {
  v1::ForecastRequest request;
  request.set_world_size(2);
  request.set_global_batch_size(std::numeric_limits<int32_t>::max());
  const v1::ModelConfig model = Preset("tiny");
  ASSERT_OK_AND_ASSIGN(const v1::Forecast largest, ForecastTraining(model, request));
  request.set_global_batch_size(2);
  ASSERT_OK_AND_ASSIGN(const v1::Forecast one, ForecastTraining(model, request));
  EXPECT_NEAR(largest.step_flops() / one.step_flops(), 0x1p30, 1);  // sequences of a rank
  EXPECT_EQ(largest.activation_bytes(), one.activation_bytes());
}

TEST(ForecastArithmeticTest, BadRequestsAreNamed) {
  const v1::ModelConfig model = Preset("tiny");
  v1::ForecastRequest request;
  request.set_world_size(-1);
  EXPECT_FAILS(ForecastTraining(model, request), absl::StatusCode::kInvalidArgument, "world_size");
  request.set_world_size(2'000'000);
  EXPECT_FAILS(ForecastTraining(model, request), absl::StatusCode::kInvalidArgument,
               "forecast.world_size: got 2000000, expected 1 to 1048576");
  request.set_world_size(8);
  request.set_global_batch_size(4);
  EXPECT_FAILS(ForecastTraining(model, request), absl::StatusCode::kInvalidArgument,
               "global_batch_size", "got 4");
  request.set_global_batch_size(8);
  request.set_target_share(1.5);
  EXPECT_FAILS(ForecastTraining(model, request), absl::StatusCode::kInvalidArgument,
               "forecast.target_share: got 1.5, expected a share up to 1");
  request.set_target_share(1);
  request.set_mean_visible_keys(model.sequence_length());
  EXPECT_FAILS(ForecastTraining(model, request), absl::StatusCode::kInvalidArgument,
               "forecast.mean_visible_keys: got 512, expected above 0, at most 256, half of the");
  v1::ModelConfig chosen = Preset("tiny/8E");
  chosen.mutable_routing()->set_router(v1::EXPERT_CHOICE_TOKEN);
  EXPECT_FAILS(ForecastTraining(chosen, {}), absl::StatusCode::kUnimplemented,
               "EXPERT_CHOICE_TOKEN");
}

}  // namespace forecast_test
}  // namespace braid
