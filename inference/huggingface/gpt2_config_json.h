// Converts between the config.json of a GPT2LMHeadModel and ModelConfig. docs/formats/export.md
// lists the fields.
#ifndef BRAID_INFERENCE_HUGGINGFACE_GPT2_CONFIG_JSON_H_
#define BRAID_INFERENCE_HUGGINGFACE_GPT2_CONFIG_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json_fields.h"
#include "braid/v1/model.pb.h"
#include "inference/huggingface/config_json.h"

namespace braid {

inline constexpr std::string_view kGpt2Type = "gpt2";

// Returns the fields of config.json that describe a dense GPT2, whose tensors have the type
// `dtype`.
nlohmann::ordered_json Gpt2ConfigJson(const v1::ModelConfig& resolved, const std::string& dtype,
                                      const EndTokens& ends);

// Returns the configuration in config.json, which is not resolved, with the start token. Errors are
// those of `fields`, which reads `json`: a missing field, or a value that changes the function of
// the model, such as another activation or scaling of attention.
v1::ModelConfig ReadGpt2Config(const nlohmann::json& json, JsonFields* fields);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_GPT2_CONFIG_JSON_H_
