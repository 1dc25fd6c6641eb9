// The modules of a sentence-transformers directory (sbert.net): which encoder, how its hidden
// states become one vector, and what is put before a text. Reads modules.json,
// N_Pooling/config.json, sentence_bert_config.json, tokenizer_config.json (the limit of tokens) and
// config_sentence_transformers.json; weights are read elsewhere.
#ifndef BRAID_RETRIEVAL_SENTENCE_MODEL_H_
#define BRAID_RETRIEVAL_SENTENCE_MODEL_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/contriever_config.h"

namespace braid {

struct SentenceModel {
  // The directory with config.json, vocab.txt or tokenizer.json, and the weights.
  std::filesystem::path encoder;
  Pooling pooling = Pooling::kMean;
  // D of the encoder according to the pooling module.
  std::optional<int32_t> dimension = std::nullopt;
  // The limit of tokens of a text, including [CLS] and [SEP].
  std::optional<int32_t> max_tokens = std::nullopt;
  // The default prompt, such as "passage: ".
  std::string prefix = {};
};

// Reads a directory; one without modules.json is an encoder with mean pooling. INVALID_ARGUMENT
// names the file, the field and what is supported, for malformed JSON, modules other than
// Transformer, Pooling and Normalize in this order, a mode of pooling other than mean, CLS and last
// token, and a path that leads out of the directory; NOT_FOUND for a file that modules.json
// promises. Normalize changes nothing, since vectors are always normalized.
absl::StatusOr<SentenceModel> ReadSentenceModel(const std::filesystem::path& directory);

// The parts of the above; `path` is for messages.
struct SentenceModules {
  std::string encoder;  // relative paths of the modules
  std::string pooling;
};
absl::StatusOr<SentenceModules> ParseSentenceModules(std::string_view text,
                                                     const std::filesystem::path& path);
absl::Status ParsePooling(std::string_view text, const std::filesystem::path& path,
                          SentenceModel* model);
absl::Status ParseSequenceLimit(std::string_view text, const std::filesystem::path& path,
                                SentenceModel* model);
// Reads the limit from tokenizer_config.json, where sentence-transformers 6 puts it.
absl::Status ParseTokenizerLimit(std::string_view text, const std::filesystem::path& path,
                                 SentenceModel* model);
absl::Status ParsePrompts(std::string_view text, const std::filesystem::path& path,
                          SentenceModel* model);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_SENTENCE_MODEL_H_
