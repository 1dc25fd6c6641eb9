// The tokenizer files of other programs: one file, or a folder with several.
#ifndef BRAID_FORMATS_TOKENIZER_FILE_H_
#define BRAID_FORMATS_TOKENIZER_FILE_H_

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace braid {

// Reads a tokenizer file as it is stored with datasets and checkpoints: one file that needs no
// others. A SentencePiece model gets the tokens of the added_tokens.json and of the
// added_tokens_decoder of the tokenizer_config.json beside it as pieces (added_pieces.h), unless it
// has them. A tokenizer.json gets a field "braid" with the eos_token and bos_token of the
// tokenizer_config.json beside it, if there is one, unless it has that field. A vocab.json with
// merges.txt beside it becomes GPT-2's tokenizer.json. `path` may be a directory with one of these
// files, all of which are read by `read`.
struct TokenizerFile {
  std::filesystem::path path;  // for messages
  std::string bytes;
  // Beside a SentencePiece model: the eos_token of tokenizer_config.json.
  std::optional<std::string> eos_token = {};
};
using FileReader = std::function<absl::StatusOr<std::string>(const std::filesystem::path& path)>;
absl::StatusOr<TokenizerFile> ReadTokenizerFile(const std::filesystem::path& path,
                                                const FileReader& read);

// Returns a stored tokenizer.json without the field "braid", which other programs refuse.
std::string ForOtherPrograms(std::string_view stored);

}  // namespace braid

#endif  // BRAID_FORMATS_TOKENIZER_FILE_H_
