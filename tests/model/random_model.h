// Small models and token batches for tests.
#ifndef BRAID_TESTS_MODEL_RANDOM_MODEL_H_
#define BRAID_TESTS_MODEL_RANDOM_MODEL_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "model/language_model.h"

namespace braid {

// Returns a configuration with 2 layers, D 16, 2 heads, F 24, V 50, L 24, S 8; dense for one
// expert.
v1::ModelConfig SmallModelConfig(int num_experts);

// The same with another router and, if listed, experts in these layers only. Experts of
// TOKEN_CHOICE have 24 / num_experts units, rounded down.
v1::ModelConfig SmallModelConfig(int num_experts, v1::Router router,
                                 const std::vector<int>& moe_layers = {});

// Returns configurations of the same size, with 4 heads, whose attention is that of LLaMA 3, Qwen2
// and Qwen3: grouped queries with scaled RoPE, biases, and norms of wider heads.
std::vector<v1::ModelConfig> GroupedModelConfigs(int num_experts);

// Returns a model with initial weights of `seed` and random biases, and routers scaled up so that
// routing matters.
std::unique_ptr<LanguageModel> SharpModel(const v1::ModelConfig& config, uint64_t seed);

std::vector<int32_t> RandomTokens(size_t count, int vocab_size, std::mt19937* random);

// Returns the largest absolute difference of two vectors of equal length, from `begin` on; NaN
// where one has a NaN.
double MaxDifference(const std::vector<float>& a, const std::vector<float>& b, size_t begin = 0);

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_RANDOM_MODEL_H_
