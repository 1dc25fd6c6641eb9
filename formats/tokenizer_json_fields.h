// Fields of the JSON files of Hugging Face tokenizers.
#ifndef BRAID_FORMATS_TOKENIZER_JSON_FIELDS_H_
#define BRAID_FORMATS_TOKENIZER_JSON_FIELDS_H_

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace braid {

// Deepest nesting that is read.
inline constexpr int kTokenizerJsonDeepestLevel = 12;

// The file with a tokenizer's settings, beside that of its vocabulary.
inline constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";

// The field of a stored tokenizer.json with what its other files say.
inline constexpr char kBraidField[] = "braid";

// End-of-sequence tokens of known tokenizers, used when no file names one.
inline constexpr std::array kKnownEos = {"<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>"};
inline constexpr std::array kKnownBos = {"<|begin_of_text|>", "<s>", "<bos>"};

// Returns a field; null if `object` has none.
const nlohmann::json& FieldOf(const nlohmann::json& object, const char* name);

// Returns whether a field is true.
bool IsTrue(const nlohmann::json& object, const char* name);

// Returns the content of a token that the files of a tokenizer name: a string, or an object that
// contains one.
std::optional<std::string> TokenContent(const nlohmann::json& token);

// Returns the UNIMPLEMENTED error of a tokenizer of another kind; a long `got` is cut.
absl::Status UnsupportedTokenizer(const std::string& where, const std::string& got,
                                  const std::string& expected);

}  // namespace braid

#endif  // BRAID_FORMATS_TOKENIZER_JSON_FIELDS_H_
