// The config.json of a BERT encoder in Hugging Face layout, such as Contriever (arXiv 2112.09118)
// or all-MiniLM-L6-v2.
#ifndef BRAID_RETRIEVAL_CONTRIEVER_CONFIG_H_
#define BRAID_RETRIEVAL_CONTRIEVER_CONFIG_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace braid {

// Texts per call: enough of similar length to share batches, few enough to take at most a minute on
// one core.
inline constexpr int64_t kContrieverBatchTexts = 64;

// The rule by which the last hidden states of the tokens of a text become its vector: their mean,
// that of [CLS], or that of the last token.
enum class Pooling { kMean, kClassify, kLastToken };

// The shape of the encoder: D = hidden_size, H = num_attention_heads, F = intermediate_size, V =
// vocab_size. All at least 1; D is a multiple of H.
struct ContrieverConfig {
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t num_hidden_layers = 0;
  int32_t num_attention_heads = 0;
  int32_t intermediate_size = 0;
  int32_t max_position_embeddings = 0;
  int32_t type_vocab_size = 0;
  double layer_norm_eps = 0;
};

// Parses a config.json; `path` is for messages. INVALID_ARGUMENT names the field, its value and the
// expected value, for malformed JSON, a missing field, a field out of range, or another kind of
// model (another model_type, an activation other than the erf GELU, relative positions, a decoder,
// quantized weights). Dropout and other training settings are ignored.
absl::StatusOr<ContrieverConfig> ParseContrieverConfig(std::string_view text,
                                                       const std::filesystem::path& path);

// Reads DIRECTORY/config.json. NOT_FOUND if it does not exist.
absl::StatusOr<ContrieverConfig> ReadContrieverConfig(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_CONTRIEVER_CONFIG_H_
