// tokenizer.json: the tokenizers of GPT-2, LLaMA 3, Qwen, SmolLM and others.
//
// The file is that of Hugging Face's `tokenizers` library. Byte-level BPE is supported; every other
// model, normalizer, pre-tokenizer or option is refused by name, never approximated.
// docs/formats/tokenizer_json.md lists the fields.
#ifndef BRAID_FORMATS_TOKENIZER_JSON_H_
#define BRAID_FORMATS_TOKENIZER_JSON_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/piece_scanner.h"

namespace braid {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// A token that is cut out of the text before it is split into pieces.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;     // a control token; text never becomes one
  bool normalized = false;  // searched in the text after normalization
};

struct TokenizerJson {
  // Index: token id; value: its characters in the byte alphabet (byte_level_alphabet.h), or the
  // content of an added token. Empty for an id that no token has.
  std::vector<std::string> pieces;
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  bool ignore_merges = false;            // a piece of text that is a token is not split
  std::vector<NormalForm> normal_forms;  // to which text is normalized, one after the other
  PieceScanner scanner;
  std::vector<AddedToken> added_tokens;
  std::optional<std::string> eos;  // content of the end-of-sequence token
  std::optional<std::string> bos;  // content of the beginning-of-sequence token
};

// Parses the text of a file; `path` is for messages. INVALID_ARGUMENT for text that is not such a
// file, UNIMPLEMENTED for a tokenizer of another kind.
absl::StatusOr<TokenizerJson> ParseTokenizerJson(std::string_view text,
                                                 const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_FORMATS_TOKENIZER_JSON_H_
