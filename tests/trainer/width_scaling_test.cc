// The coordinate check of muP (arXiv 2203.03466, appendix D.1): how far a few steps of AdamW move
// the outputs of models of different widths.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/splitmix.h"
#include "braid/v1/model.pb.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "model/language_model.h"
#include "trainer/adamw.h"

namespace braid {
namespace width_scaling_test {

constexpr int kVocab = 61, kLength = 32, kBatch = 4, kSteps = 5;

v1::ModelConfig ConfigOf(int width, v1::Initialization initialization, v1::Router router) {
  v1::ModelConfig config;
  config.set_num_layers(2);
  config.set_d_model(width);
  config.set_num_heads(width / 16);
  config.set_d_ff(3 * width);
  config.set_vocab_size(kVocab);
  config.set_sequence_length(kLength);
  config.set_initialization(initialization);
  if (initialization == v1::WIDTH_SCALED) config.set_base_width(32);
  config.mutable_routing()->set_segment_length(8);
  if (router != v1::DENSE) {
    config.mutable_routing()->set_router(router);
    config.mutable_routing()->set_num_experts(3);
  }
  return ResolveModelConfig(config).value();
}

// Sequences in which each token follows from the one before, so that there is something to learn.
std::vector<int32_t> Tokens() {
  std::vector<int32_t> tokens;
  for (int b = 0; b < kBatch; ++b) {
    auto token = static_cast<int32_t>(Mix64(7, static_cast<uint64_t>(b)) % kVocab);
    for (int t = 0; t < kLength + 1; ++t) {
      tokens.push_back(token);
      token = (token * 5 + 3) % kVocab;
    }
  }
  return tokens;
}

struct Batch {
  std::vector<int32_t> inputs, targets;
};

Batch MakeBatch() {
  const std::vector<int32_t> tokens = Tokens();
  Batch batch;
  for (int b = 0; b < kBatch; ++b) {
    const auto first = tokens.begin() + b * (kLength + 1);
    batch.inputs.insert(batch.inputs.end(), first, first + kLength);
    batch.targets.insert(batch.targets.end(), first + 1, first + kLength + 1);
  }
  return batch;
}

void Train(const Batch& batch, double rate, LanguageModel* model) {
  const std::span<float> gradients = model->gradients();
  std::vector<float> m(gradients.size()), v(gradients.size());
  for (int step = 1; step <= kSteps; ++step) {
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    ASSERT_TRUE(model
                    ->ForwardBackward(batch.inputs, batch.targets, kBatch,
                                      1.0 / static_cast<double>(batch.targets.size()), false)
                    .ok());
    std::vector<AdamwParameter> parameters;
    for (const Parameter& p : model->parameters()) {
      const auto offset = static_cast<size_t>(p.gradient.data() - gradients.data());
      parameters.push_back({.value = p.value,
                            .gradient = p.gradient,
                            .m = std::span(m).subspan(offset, p.value.size()),
                            .v = std::span(v).subspan(offset, p.value.size()),
                            .decay = p.decay,
                            .rate_factor = p.rate_factor,
                            .decay_factor = p.decay_factor});
    }
    AdamwStep({}, rate, step, 1, parameters);
  }
}

// Returns the root mean square of the change of the logits by a few steps.
double OutputChange(int width, v1::Initialization initialization, v1::Router router) {
  const Batch batch = MakeBatch();
  auto model = LanguageModel::Create(ConfigOf(width, initialization, router), 5).value();
  const std::vector<float> before = model->Logits(batch.inputs, kBatch).value();
  Train(batch, 0.01, model.get());
  const std::vector<float> after = model->Logits(batch.inputs, kBatch).value();
  double sum = 0;
  for (size_t i = 0; i < after.size(); ++i) sum += std::pow(after[i] - before[i], 2);
  return std::sqrt(sum / static_cast<double>(after.size()));
}

// Widening a model 8 times hardly changes how far the outputs move; without scaling they move
// half as far again or more.
void ExpectWidthDoesNotMatter(v1::Router router) {
  const double narrow = OutputChange(32, v1::WIDTH_SCALED, router);
  const double wide = OutputChange(256, v1::WIDTH_SCALED, router);
  EXPECT_LT(wide, 1.25 * narrow);
  EXPECT_GT(wide, narrow / 1.25);
  const double growth =
      OutputChange(256, v1::FAN_IN, router) / OutputChange(32, v1::FAN_IN, router);
  EXPECT_GT(growth, 1.4);
  testing::Test::RecordProperty("scaled_growth", std::to_string(wide / narrow));
  testing::Test::RecordProperty("fan_in_growth", std::to_string(growth));
}

TEST(WidthScalingTest, OutputsOfADenseModelMoveAsFarAtEveryWidth) {
  ExpectWidthDoesNotMatter(v1::DENSE);
}

TEST(WidthScalingTest, OutputsOfMergedExpertsMoveAsFarAtEveryWidth) {
  ExpectWidthDoesNotMatter(v1::CAUSAL_SEGMENT);
}

TEST(WidthScalingTest, OutputsOfChosenExpertsMoveAsFarAtEveryWidth) {
  ExpectWidthDoesNotMatter(v1::TOKEN_CHOICE);
}

}  // namespace width_scaling_test
}  // namespace braid
