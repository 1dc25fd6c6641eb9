// The parameters of a model as one flat array: names, shapes, offsets and initialization. A pure
// function of the configuration.
//
// The q, k and v matrices of a layer are adjacent, and so are their biases and gate and up, so that
// each set can also be used as one array. There are no gaps between parameters.
#ifndef BRAID_MODEL_CONFIG_PARAMETER_LAYOUT_H_
#define BRAID_MODEL_CONFIG_PARAMETER_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "braid/v1/model.pb.h"

namespace braid {

// The table of learned positions of a GPT2, [sequence_length, D].
inline constexpr char kPositionsName[] = "model.embed_positions.weight";

// Last part of the name of the mean input of a gate (TokenRouting.centered_input), [D].
inline constexpr char kInputMean[] = "input_mean";

struct ParameterSpec {
  // Hugging Face LLaMA name, or the name of an expert or router tensor. A name ending in "weight_t"
  // denotes the transpose of the Hugging Face "weight": the FFN kernel needs hidden units as rows
  // in all three matrices.
  std::string name;
  // "embedding", "layer_mixing", "attention", "ffn", "router", "dropout", "norm", "head" or
  // "adapter".
  std::string group;
  std::vector<int64_t> shape;
  // First element and number of elements in the flat array.
  int64_t offset = 0;
  int64_t size = 0;
  // Standard deviation of the initial normal values; 0 means that all are initial_value, or
  // uniform in +- initial_bound where that is positive.
  double initial_std = 0;
  float initial_value = 1;
  double initial_bound = 0;
  // False for a parameter that keeps its initial values: it has no gradient and is not updated.
  bool trained = true;
  // First element in the flat array of gradients; -1 for a parameter that has none there.
  int64_t gradient_offset = -1;
  // Factor of the learning rate: that of WIDTH_SCALED times that of Finetuning.learning_rates.
  double rate_factor = 1;
  // Factor of the learning rate in weight decay: that of Finetuning.learning_rates.
  double decay_factor = 1;
};

// Returns all parameters in flat order, each with a place in the array of gradients, which has the
// same order. `resolved` comes from ResolveModelConfig, which calls this function before it limits
// the number of parameters; offsets above 2^62 are reported as 2^62.
std::vector<ParameterSpec> ParameterLayout(const v1::ModelConfig& resolved);

// Returns the prefix of the names of the gate of a mixing layer: "model.layer_mixing.gate." for the
// gate that all layers share, "model.layers.<layer>.layer_mixing.gate." for its own.
std::string MixingGatePrefix(const v1::ModelConfig& resolved, int layer);

// Returns whether a parameter is trained and a matrix of attention or of an FFN, or several [E,
// rows, columns].
bool IsHiddenMatrix(const ParameterSpec& spec);

// Returns "model.layers.<layer>.".
std::string LayerPrefix(int layer);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_PARAMETER_LAYOUT_H_
