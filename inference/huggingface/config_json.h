// Converts between the config.json of a Hugging Face model directory and ModelConfig.
// docs/formats/export.md lists every field.
#ifndef BRAID_INFERENCE_HUGGINGFACE_CONFIG_JSON_H_
#define BRAID_INFERENCE_HUGGINGFACE_CONFIG_JSON_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "formats/safetensors_header.h"

namespace braid {

// Returns whether a model is a Mixtral: every token of every layer uses the TOP experts by a gate
// that is a matrix, weighted by the softmax of their scores, and attention has neither biases nor
// norms.
bool IsMixtral(const v1::ModelConfig& resolved);

// Returns "MixtralForCausalLM" for a Mixtral and "BraidSoftMoeForCausalLM" for other models with
// experts; for a dense one, "Qwen3ForCausalLM" with qk_norm, "Qwen2ForCausalLM" with qkv_bias,
// "GPT2LMHeadModel" for a GPT2, otherwise "LlamaForCausalLM". "BraidMixedLayersForCausalLM" where
// layers mix.
std::string ArchitectureOf(const v1::ModelConfig& resolved);

// The tokens around a text.
struct EndTokens {
  // Precedes the first token; nullopt for none.
  std::optional<int32_t> start_id;
  // Ends a text.
  int32_t eos_id = 0;
};

// Returns config.json. The same arguments give the same bytes.
std::string FormatConfigJson(const v1::ModelConfig& resolved, DType dtype, const EndTokens& ends);

// Parses config.json of a llama, mistral, mixtral, qwen2, qwen3, gpt2, braid_soft_moe or
// braid_mixed_layers, with a head of tokens or of labels, to a resolved configuration;
// sequence_length is max_position_embeddings, start_token is set for a gpt2 only. `path` is used in
// messages. InvalidArgument names the field, its value and what is expected, for malformed JSON, a
// missing field, or an unsupported model (another architecture, a sliding window shorter than the
// context, biases of other projections, another scaling of RoPE, another activation, quantized
// weights).
absl::StatusOr<v1::ModelConfig> ParseConfigJson(std::string_view text,
                                                const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_CONFIG_JSON_H_
