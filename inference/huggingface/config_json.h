// Converts between the config.json of a Hugging Face model directory and ModelConfig.
// docs/formats/export.md lists every field.
#ifndef BRAID_INFERENCE_HUGGINGFACE_CONFIG_JSON_H_
#define BRAID_INFERENCE_HUGGINGFACE_CONFIG_JSON_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "formats/safetensors_header.h"

namespace braid {

// Returns "LlamaForCausalLM" for a dense model, "BraidSoftMoeForCausalLM" otherwise.
std::string ArchitectureOf(const v1::ModelConfig& resolved);

// Returns config.json. `eos_id` ends a document and precedes the first token of one, as in
// training. The same arguments give the same bytes.
std::string FormatConfigJson(const v1::ModelConfig& resolved, DType dtype, int32_t eos_id);

// Parses config.json to a resolved configuration; a LLaMA's sequence_length is
// max_position_embeddings. `path` is used in messages. InvalidArgument names the field, its value
// and what is expected, for malformed JSON, a missing field, or an unsupported model (another
// architecture, grouped-query attention, biases, scaled RoPE, another activation, quantized
// weights).
absl::StatusOr<v1::ModelConfig> ParseConfigJson(std::string_view text,
                                                const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_CONFIG_JSON_H_
