#include "model/language_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "tests/model/random_model.h"

namespace braid {
namespace language_model_test {

using testing::HasSubstr;

constexpr v1::Router kRouters[] = {v1::CAUSAL_SEGMENT, v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT,
                                   v1::EXPERT_CHOICE_TOKEN, v1::TOKEN_CHOICE};

struct Batch {
  std::vector<int32_t> inputs, targets;
};

Batch RandomBatch(int64_t batch_size, uint32_t seed) {
  std::mt19937 random(seed);
  Batch batch{RandomTokens(batch_size * 24, 50, &random),
              RandomTokens(batch_size * 24, 50, &random)};
  batch.targets[5] = batch.targets.back() = -1;
  return batch;
}

TEST(LanguageModelTest, ParametersCoverBothBuffersWithoutGaps) {
  std::vector<v1::ModelConfig> configs = GroupedModelConfigs(4);
  configs.push_back(SmallModelConfig(4));
  for (const v1::ModelConfig& config : configs) {
    const auto model = LanguageModel::Create(config, 1).value();
    float* value = model->values().data();
    float* gradient = model->gradients().data();
    for (const Parameter& parameter : model->parameters()) {
      EXPECT_EQ(parameter.value.data(), value) << parameter.name;
      EXPECT_EQ(parameter.gradient.data(), gradient) << parameter.name;
      EXPECT_EQ(parameter.decay, parameter.shape.size() > 1) << parameter.name;
      value += parameter.value.size();
      gradient += parameter.gradient.size();
    }
    EXPECT_EQ(value, model->values().data() + model->values().size());
    EXPECT_EQ(static_cast<int64_t>(model->values().size()),
              DescribeModel(model->config()).num_parameters());
  }
}

TEST(LanguageModelTest, BiasesAndNormsStartAsTheIdentityAndDoNotDecay) {
  for (const v1::ModelConfig& config : GroupedModelConfigs(1)) {
    const auto model = LanguageModel::Create(config, 1).value();
    int found = 0;
    for (const Parameter& parameter : model->parameters()) {
      const bool bias = parameter.name.ends_with(".bias");
      if (!bias && parameter.name.find("_norm.") == std::string::npos) continue;
      EXPECT_FALSE(parameter.decay) << parameter.name;
      for (const float value : parameter.value) ASSERT_EQ(value, bias ? 0 : 1) << parameter.name;
      ++found;
    }
    EXPECT_EQ(found, (config.qkv_bias() ? 6 : 0) + (config.qk_norm() ? 4 : 0));
  }
}

TEST(LanguageModelTest, SameSeedGivesTheSameBits) {
  std::vector<std::vector<float>> gradients;
  for (int run = 0; run < 2; ++run) {
    const auto model = LanguageModel::Create(SmallModelConfig(4), 3).value();
    const Batch batch = RandomBatch(2, 4);
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(model->ForwardBackward(batch.inputs, batch.targets, 2, 0.1, false).ok());
      for (size_t i = 0; i < model->values().size(); ++i) {
        model->values()[i] -= 0.1f * model->gradients()[i];
      }
    }
    gradients.emplace_back(model->gradients().begin(), model->gradients().end());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST(LanguageModelTest, DenseAndExpertModelsShareInitialWeights) {
  const auto dense = LanguageModel::Create(SmallModelConfig(1), 5).value();
  const auto experts = LanguageModel::Create(SmallModelConfig(4), 5).value();
  std::map<std::string, Parameter> by_name;
  for (const Parameter& parameter : dense->parameters()) by_name[parameter.name] = parameter;
  int shared = 0;
  for (const Parameter& parameter : experts->parameters()) {
    if (!by_name.contains(parameter.name)) continue;
    ++shared;
    EXPECT_TRUE(std::equal(parameter.value.begin(), parameter.value.end(),
                           by_name[parameter.name].value.begin()))
        << parameter.name;
  }
  EXPECT_EQ(shared, 3 + 2 * 6);
}

TEST(LanguageModelTest, ExpertsStartDifferent) {
  const auto model = LanguageModel::Create(SmallModelConfig(4), 5).value();
  int matrices = 0;
  for (const Parameter& parameter : model->parameters()) {
    if (parameter.name.find("experts") == std::string::npos) continue;
    ++matrices;
    const size_t size = parameter.value.size() / 4;
    EXPECT_FALSE(std::equal(parameter.value.begin(), parameter.value.begin() + size,
                            parameter.value.begin() + size));
  }
  EXPECT_EQ(matrices, 2 * 3);
}

TEST(LanguageModelTest, TrainingLossEqualsEvaluationLoss) {
  for (const v1::ModelConfig& config :
       {SmallModelConfig(1), SmallModelConfig(4), SmallModelConfig(4, v1::PREFIX),
        SmallModelConfig(3, v1::CAUSAL_SEGMENT, {1})}) {
    const auto model = SharpModel(config, 6);
    const Batch batch = RandomBatch(3, 7);
    const TrainResult train =
        model->ForwardBackward(batch.inputs, batch.targets, 3, 1, true).value();
    const ForwardResult evaluation =
        model->Evaluate(batch.inputs, batch.targets, 3, MergeMode::kSegment, true).value();
    double total = 0, later = 0;
    for (size_t i = 0; i < evaluation.token_loss.size(); ++i) {
      total += evaluation.token_loss[i];
      if (i % 24 >= 8) later += evaluation.token_loss[i];
    }
    EXPECT_EQ(evaluation.token_loss[5], 0);
    EXPECT_EQ(train.num_tokens, 3 * 24 - 2);
    EXPECT_EQ(train.num_tokens_after_first_segment, 3 * 16 - 1);
    EXPECT_NEAR(train.loss_sum, total, 1e-3);
    EXPECT_NEAR(train.loss_sum_after_first_segment, later, 1e-3);
    ASSERT_EQ(train.routing.size(), MoeLayers(config).size());
    for (size_t i = 0; i < train.routing.size(); ++i) {
      EXPECT_EQ(train.routing[i].layer, MoeLayers(config)[i]);
      EXPECT_EQ(train.routing[i].weights, evaluation.routing[i].weights);
    }
  }
}

TEST(LanguageModelTest, ZLossChangesGradientsAndNotTheReportedLoss) {
  v1::ModelConfig config = SmallModelConfig(4);
  const auto plain = SharpModel(config, 4);
  config.set_z_loss(0.01);
  const auto model = SharpModel(config, 4);
  const Batch batch = RandomBatch(3, 5);
  const TrainResult with = model->ForwardBackward(batch.inputs, batch.targets, 3, 1, false).value();
  const TrainResult without =
      plain->ForwardBackward(batch.inputs, batch.targets, 3, 1, false).value();
  EXPECT_EQ(with.loss_sum, without.loss_sum);
  EXPECT_FALSE(std::ranges::equal(model->gradients(), plain->gradients()));
}

// Expert choice compares the whole sequence in training, which is not possible elsewhere.
TEST(LanguageModelTest, ExpertChoiceScoresCausallyOutsideTraining) {
  for (v1::Router router : {v1::EXPERT_CHOICE_SEGMENT, v1::EXPERT_CHOICE_TOKEN}) {
    const auto model = SharpModel(SmallModelConfig(4, router), 6);
    const Batch batch = RandomBatch(3, 7);
    const auto losses = [&](MergeMode mode) {
      const auto result = model->Evaluate(batch.inputs, batch.targets, 3, mode, false).value();
      return std::accumulate(result.token_loss.begin(), result.token_loss.end(), 0.0);
    };
    const TrainResult train =
        model->ForwardBackward(batch.inputs, batch.targets, 3, 1, false).value();
    EXPECT_NEAR(train.loss_sum, losses(MergeMode::kTraining), 1e-3);
    EXPECT_GT(std::abs(train.loss_sum - losses(MergeMode::kSegment)), 1e-2);
  }
}

TEST(LanguageModelTest, RoutingWeightsSumToOne) {
  for (v1::Router router : kRouters) {
    const auto model = SharpModel(SmallModelConfig(4, router), 8);
    const Batch batch = RandomBatch(2, 9);
    const size_t rows = 24 / TokensPerDecision(model->config());
    for (MergeMode mode : {MergeMode::kSegment, MergeMode::kPrompt}) {
      const ForwardResult result =
          model->Evaluate(batch.inputs, batch.targets, 2, mode, true).value();
      ASSERT_EQ(result.routing.size(), 2u);
      for (const LayerRoutingWeights& layer : result.routing) {
        ASSERT_EQ(layer.weights.size(), 2 * rows * 4);
        for (size_t row = 0; row < layer.weights.size(); row += 4) {
          EXPECT_NEAR(std::accumulate(&layer.weights[row], &layer.weights[row] + 4, 0.0), 1, 1e-5);
        }
        const bool constant = std::equal(&layer.weights[0], &layer.weights[8], &layer.weights[4]);
        const bool one_decision =
            router == v1::PREFIX ||
            (mode == MergeMode::kPrompt && !RoutesTokens(model->config().routing()));
        EXPECT_EQ(constant, one_decision) << v1::Router_Name(router);
      }
    }
  }
}

// Prompt routing uses the first segment's own weights for the whole window.
TEST(LanguageModelTest, PromptRoutingEqualsSegmentRoutingInTheFirstSegment) {
  const auto model = SharpModel(SmallModelConfig(4), 10);
  const Batch batch = RandomBatch(1, 11);
  const auto loss = [&](MergeMode mode) {
    return model->Evaluate(batch.inputs, batch.targets, 1, mode, false)->token_loss;
  };
  const std::vector<float> prompt = loss(MergeMode::kPrompt), segment = loss(MergeMode::kSegment);
  for (int t = 0; t < 8; ++t) EXPECT_NEAR(prompt[t], segment[t], 1e-4);
  EXPECT_GT(MaxDifference(prompt, segment, 8), 1e-4);
}

TEST(LanguageModelTest, GradientScaleScalesAndGradientsAccumulate) {
  const auto model = SharpModel(SmallModelConfig(4), 12);
  const Batch batch = RandomBatch(2, 13);
  ASSERT_TRUE(model->ForwardBackward(batch.inputs, batch.targets, 2, 1, false).ok());
  const std::vector<float> once(model->gradients().begin(), model->gradients().end());
  ASSERT_TRUE(model->ForwardBackward(batch.inputs, batch.targets, 2, -1, false).ok());
  double largest = 0;
  for (float g : model->gradients()) largest = std::max<double>(largest, std::abs(g));
  EXPECT_LT(largest, 1e-4);
  EXPECT_GT(*std::max_element(once.begin(), once.end()), 1e-1);
}

TEST(LanguageModelTest, GradientOfABatchIsTheSumOverItsSequences) {
  for (v1::Router router : kRouters) {
    const Batch batch = RandomBatch(2, 14);
    const v1::ModelConfig config = SmallModelConfig(4, router);
    const auto whole = SharpModel(config, 15), parts = SharpModel(config, 15);
    ASSERT_TRUE(whole->ForwardBackward(batch.inputs, batch.targets, 2, 1, false).ok());
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(parts
                      ->ForwardBackward(std::span(batch.inputs).subspan(i * 24, 24),
                                        std::span(batch.targets).subspan(i * 24, 24), 1, 1, false)
                      .ok());
    }
    for (size_t i = 0; i < whole->gradients().size(); ++i) {
      ASSERT_NEAR(whole->gradients()[i], parts->gradients()[i], 2e-4) << i;
    }
  }
}

TEST(LanguageModelTest, GradientDescentLearnsABatch) {
  for (v1::Router router : kRouters) {
    const auto model = LanguageModel::Create(SmallModelConfig(4, router), 16).value();
    const Batch batch = RandomBatch(1, 17);
    double first = 0, last = 0;
    for (int step = 0; step < 60; ++step) {
      std::fill(model->gradients().begin(), model->gradients().end(), 0.0f);
      last = model->ForwardBackward(batch.inputs, batch.targets, 1, 1.0 / 22, false)->loss_sum / 22;
      if (step == 0) first = last;
      for (size_t i = 0; i < model->values().size(); ++i) {
        model->values()[i] -= 0.5f * model->gradients()[i];
      }
    }
    EXPECT_NEAR(first, std::log(50), 1);
    EXPECT_LT(last, first / 2) << v1::Router_Name(router);
  }
}

// The training loop reports the step and the instances; the model only has to pass NaN on.
TEST(LanguageModelTest, NanRoutingWeightsPropagate) {
  for (v1::Router router : kRouters) {
    // A choice by such scores is an error outside training (TokenChoiceModelTest).
    if (router == v1::TOKEN_CHOICE) continue;
    const auto model = LanguageModel::Create(SmallModelConfig(4, router), 18).value();
    for (Parameter& parameter : model->parameters()) {
      if (parameter.name.find("router") != std::string::npos) {
        std::ranges::fill(parameter.value, std::nanf(""));
      }
    }
    const Batch batch = RandomBatch(2, 19);
    const auto result = model->ForwardBackward(batch.inputs, batch.targets, 2, 1, true);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(std::isnan(result->loss_sum));
    EXPECT_TRUE(std::isnan(result->routing[0].weights[0]));
    for (MergeMode mode : {MergeMode::kSegment, MergeMode::kPrompt}) {
      const auto losses = model->Evaluate(batch.inputs, batch.targets, 2, mode, true);
      ASSERT_TRUE(losses.ok()) << losses.status();
      EXPECT_TRUE(std::isnan(losses->token_loss[0]));
      const auto logits = model->NewDecoder(mode)->Prefill(std::span(batch.inputs).first(24));
      ASSERT_TRUE(logits.ok()) << logits.status();
      EXPECT_TRUE(std::isnan((*logits)[0]));
    }
  }
}

TEST(LanguageModelTest, BadBatchesAreErrors) {
  const auto model = LanguageModel::Create(SmallModelConfig(4), 1).value();
  const auto error = [&](std::vector<int32_t> inputs, std::vector<int32_t> targets, int64_t batch) {
    const auto result = model->ForwardBackward(inputs, targets, batch, 1, false);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  };
  EXPECT_THAT(error({1, 2, 50}, {1, 2, 3}, 1), HasSubstr("inputs[2]: got 50, expected 0 to 49"));
  EXPECT_THAT(error({1, 2, 3}, {1, -2, 3}, 1), HasSubstr("targets[1]: got -2"));
  EXPECT_THAT(error({1, 2, 3}, {1, 2}, 1), HasSubstr("targets: got 2"));
  EXPECT_THAT(error({1, 2, 3}, {1, 2, 3}, 2), HasSubstr("inputs: 3 tokens"));
  EXPECT_THAT(error({}, {}, 1), HasSubstr("cannot be divided"));
  EXPECT_THAT(error(std::vector<int32_t>(25), std::vector<int32_t>(25), 1),
              HasSubstr("at most sequence_length 24"));
  const std::vector<int32_t> tokens = {1, 2, 3, 4};
  for (const std::vector<int64_t>& instances : {std::vector<int64_t>{7}, {7, 8, 9}}) {
    EXPECT_EQ(model->ForwardBackward(tokens, tokens, 2, 1, false, nullptr, {.instances = instances})
                  .status(),
              absl::InvalidArgumentError("instances: got " + std::to_string(instances.size()) +
                                         ", expected as many as sequences, 2"));
  }
}

#ifndef BRAID_ASAN  // ASan's allocator aborts instead of failing.
// Larger than a 47-bit address space, so that no machine can allocate it.
TEST(LanguageModelTest, TooLargeForMemoryIsAnError) {
  v1::ModelConfig config;
  config.set_num_layers(4096);
  config.set_d_model(1 << 16);
  config.set_d_ff(1 << 16);
  const auto model = LanguageModel::Create(ResolveModelConfig(config).value(), 0);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kResourceExhausted) << model.status();
}
#endif

// Parts are copied when they are reported, and must not change afterwards. The call accumulates on
// top of an earlier micro-batch; a tied head adds to the embedding already at the start of
// backward.
TEST(LanguageModelTest, ReportsEachPartOfTheGradientsOnceWhenItIsComplete) {
  for (const int num_experts : {1, 4}) {
    for (const bool tie : {false, true}) {
      v1::ModelConfig config = SmallModelConfig(num_experts);
      config.set_tie_embeddings(tie);
      const auto model = LanguageModel::Create(config, 3).value();
      const Batch batch = RandomBatch(2, 4);
      ASSERT_TRUE(model->ForwardBackward(batch.inputs, batch.targets, 2, 1, false).ok());
      const std::span<float> gradients = model->gradients();
      std::vector<float> reported(gradients.size());
      std::vector<Shard> parts;
      const auto keep = [&](Shard part) {
        parts.push_back(part);
        std::copy(&gradients[0] + part.begin, &gradients[0] + part.end, &reported[part.begin]);
      };
      ASSERT_TRUE(model->ForwardBackward(batch.inputs, batch.targets, 2, 1, false, keep).ok());
      EXPECT_TRUE(std::ranges::equal(reported, gradients));
      EXPECT_EQ(parts.front().end, gradients.size());
      EXPECT_EQ(parts.back().begin, 0u);
      std::ranges::sort(parts, {}, &Shard::begin);
      size_t begin = 0;
      for (const Shard& part : parts) {
        EXPECT_EQ(part.begin, begin);
        begin = part.end;
      }
      EXPECT_EQ(begin, gradients.size());
    }
  }
}

// Later calls do not report.
TEST(LanguageModelTest, ReportsGradientsOnlyDuringTheCallThatRequestsThem) {
  const auto model = LanguageModel::Create(SmallModelConfig(4), 3).value();
  const Batch batch = RandomBatch(2, 4);
  int calls = 0;
  const auto count = [&](Shard) { ++calls; };
  ASSERT_TRUE(model->ForwardBackward(batch.inputs, batch.targets, 2, 1, false, count).ok());
  const int once = calls;
  EXPECT_GT(once, 10);
  ASSERT_TRUE(model->ForwardBackward(batch.inputs, batch.targets, 2, 1, false).ok());
  EXPECT_EQ(calls, once);
}

}  // namespace language_model_test
}  // namespace braid
