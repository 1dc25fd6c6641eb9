// The parameters of a model as one flat array: names, shapes, places and how
// each one starts. Pure function of the configuration.
//
// q, k, v of a layer are adjacent, and so are gate and up, so that each set is
// also one matrix. Nothing lies between parameters.
#ifndef BRAID_MODEL_CONFIG_PARAMETER_LAYOUT_H_
#define BRAID_MODEL_CONFIG_PARAMETER_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "braid/v1/model.pb.h"

namespace braid {

struct ParameterSpec {
  // Hugging Face LLaMA name, or that of an expert or router tensor. "weight_t" is
  // the transpose of the "weight" of that name: the FFN kernel wants hidden units
  // as rows in all three matrices.
  std::string name;
  // "embedding", "attention", "ffn", "router", "norm" or "head".
  std::string group;
  std::vector<int64_t> shape;
  // First element and number of elements in the flat array.
  int64_t offset = 0;
  int64_t size = 0;
  // Standard deviation of the initial normal values; 0 means all ones.
  double initial_std = 0;
};

// In flat order. `resolved` comes from ResolveModelConfig.
std::vector<ParameterSpec> ParameterLayout(const v1::ModelConfig& resolved);

// "model.layers.<layer>."
std::string LayerPrefix(int layer);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_PARAMETER_LAYOUT_H_
