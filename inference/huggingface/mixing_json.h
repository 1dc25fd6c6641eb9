// The fields of config.json of a model whose layers mix. docs/formats/export.md lists them.
#ifndef BRAID_INFERENCE_HUGGINGFACE_MIXING_JSON_H_
#define BRAID_INFERENCE_HUGGINGFACE_MIXING_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "base/json_fields.h"
#include "braid/v1/model.pb.h"

namespace braid {

// The model_type, and the beginning of the architecture. No class has these names, so that a
// program that does not mix layers refuses the model instead of computing another one.
inline constexpr char kMixedType[] = "braid_mixed_layers";
inline constexpr char kMixedArchitecture[] = "BraidMixedLayers";

// Turns the fields of a model without mixing into those of `resolved`, whose layers mix.
void AddMixingJson(const v1::ModelConfig& resolved, nlohmann::ordered_json* json);

// Returns model_type, or for a model whose layers mix that of its layers.
std::string LayersType(JsonFields* fields);

// Reads layer_mixing into `config` where model_type is that of a model whose layers mix. `source`
// begins messages. InvalidArgument names a field that LayerMixing does not have.
absl::Status ReadMixingJson(const std::string& source, JsonFields* fields, v1::ModelConfig* config);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_MIXING_JSON_H_
