// Models whose tokens choose their experts, and batches for them.
#ifndef BRAID_TESTS_MODEL_TOKEN_CHOICE_BATCH_H_
#define BRAID_TESTS_MODEL_TOKEN_CHOICE_BATCH_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "model/config/model_config.h"
#include "tests/model/random_model.h"

namespace braid {

// Returns the small model with 4 experts of 6 of the 24 hidden units; k 2.
inline v1::ModelConfig TokenChoiceConfig(v1::TokenRouting::Gate gate,
                                         v1::TokenRouting::CombineWeights weights,
                                         double balance = 0) {
  v1::ModelConfig config = SmallModelConfig(4, v1::TOKEN_CHOICE);
  v1::TokenRouting* token = config.mutable_routing()->mutable_token();
  token->set_gate(gate);
  token->set_combine_weights(weights);
  token->set_balance_loss(balance);
  return ResolveModelConfig(config).value();
}

struct TokenBatch {
  std::vector<int32_t> inputs, targets;
};

// Returns sequences of 24 tokens; the last targets of the first are left out.
inline TokenBatch RandomTokenBatch(int64_t batch, uint32_t seed = 1) {
  constexpr int64_t kTokens = 24;
  std::mt19937 random(seed);
  TokenBatch tokens{RandomTokens(batch * kTokens, 50, &random),
                    RandomTokens(batch * kTokens, 50, &random)};
  for (int i = 0; i < 5; ++i) tokens.targets[kTokens - 1 - i] = -1;
  return tokens;
}

// Returns the gradient of half the loss.
inline std::vector<float> GradientOf(LanguageModel& model, const TokenBatch& tokens, int64_t batch,
                                     const BatchIdentity& identity = {}) {
  std::ranges::fill(model.gradients(), 0.0f);
  EXPECT_TRUE(
      model.ForwardBackward(tokens.inputs, tokens.targets, batch, 0.5, false, nullptr, identity)
          .ok());
  return {model.gradients().begin(), model.gradients().end()};
}

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_TOKEN_CHOICE_BATCH_H_
