// The fields of config.json of a model with a label head. docs/formats/export.md lists them.
#ifndef BRAID_INFERENCE_HUGGINGFACE_LABEL_JSON_H_
#define BRAID_INFERENCE_HUGGINGFACE_LABEL_JSON_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "base/json_fields.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Ends of the architectures of models that predict tokens and labels.
inline constexpr char kTokensArchitecture[] = "ForCausalLM";
inline constexpr char kLabelsArchitecture[] = "ForSequenceClassification";

// Adds the fields of a label head. Python programs read the head at the last token that is not
// `padding`.
void AddLabels(const v1::LabelHead& head, int32_t padding, nlohmann::ordered_json* json);

// Reads the label head where `architectures` names one: classes in the order of their ids, or a
// regression. Absent fields are as in transformers. `fields` records an error for another head.
void ReadLabels(JsonFields* fields, v1::ModelConfig* config);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_LABEL_JSON_H_
