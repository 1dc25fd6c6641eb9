// The resolved model configuration: presets, defaults, validation, sizes.
//
//   v1::ModelConfig request;
//   request.set_preset("tiny/8E");
//   ASSIGN_OR_RETURN(v1::ModelConfig config, ResolveModelConfig(request));
//
// Presets carry the names of arXiv 2405.03133, Table 1: a dense size ("0.3B",
// "1.5B", "7B") and optionally a number of experts behind a slash. The small
// sizes ("tiny", "small", "medium") are for one machine.
#ifndef BRAID_TRAINER_MODEL_CONFIG_H_
#define BRAID_TRAINER_MODEL_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Returns `config` with its preset applied below the fields set in it and
// every default filled in; the result resolves to itself. InvalidArgument names
// the field, its value, what is expected and (for a preset) the nearest name.
absl::StatusOr<v1::ModelConfig> ResolveModelConfig(const v1::ModelConfig& config);

// Every named preset, small to large. Any other number of experts behind a
// size ("tiny/12E") resolves too.
std::vector<std::string> PresetNames();

// Parameter counts, training state and FLOPs of a resolved configuration.
// FLOPs count a multiply-add as two; attention counts the causal half only.
v1::DescribeModelResponse DescribeModel(const v1::ModelConfig& resolved);

// The dense model of the same active size: one expert, router DENSE, everything
// else (segment_length too, so that both score the same tokens) unchanged.
v1::ModelConfig DenseCounterpart(const v1::ModelConfig& resolved);

// True when the FFNs are merged from experts.
bool UsesExperts(const v1::ModelConfig& resolved);

}  // namespace braid

#endif  // BRAID_TRAINER_MODEL_CONFIG_H_
