// What the family of a model decides (proto Family). Private to model/config/, but for the
// questions.
#ifndef BRAID_MODEL_CONFIG_FAMILY_CONFIG_H_
#define BRAID_MODEL_CONFIG_FAMILY_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Returns true for a model with LayerNorm, learned positions and an FFN of two matrices with
// biases.
bool IsGpt2(const v1::ModelConfig& config);

// Returns the number of matrices of an FFN: gate, up and down, or up and down.
int64_t NumFfnMatrices(const v1::ModelConfig& config);

// Returns the names of the parameters of an FFN with one row per hidden unit, without the prefix of
// the layer: "gate_proj.weight", or "up_proj.bias". The rows of the first one are the keys of the
// units (EMoE, arXiv 2310.10908).
std::vector<std::string> HiddenUnitNames(const v1::ModelConfig& config);

// Returns the name of the keys of the hidden units of a dense layer, [F, D].
std::string KeysName(const v1::ModelConfig& config, int layer);

// Sets the fields of a GPT2 that have one possible value, its default width of the FFN, and clears
// the default of a field that only LLAMA has.
void FillFamilyDefaults(v1::ModelConfig* config);

// Returns InvalidArgument for a setting that the family does not have, or a router that it is not
// implemented for.
absl::Status CheckFamily(const v1::ModelConfig& config);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_FAMILY_CONFIG_H_
