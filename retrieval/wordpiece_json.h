// A WordPiece tokenizer as the tokenizer.json of Hugging Face's `tokenizers` library.
#ifndef BRAID_RETRIEVAL_WORDPIECE_JSON_H_
#define BRAID_RETRIEVAL_WORDPIECE_JSON_H_

#include <filesystem>
#include <string_view>

#include "absl/status/statusor.h"
#include "retrieval/wordpiece_tokenizer.h"

namespace braid {

// Parses the text of a file; `path` is for messages. [CLS] and [SEP] may be missing. Tokens that
// are added to a text are ignored. INVALID_ARGUMENT names the field for malformed JSON, for another
// model, normalizer or pre-tokenizer than those of BERT, and for ids that are not 0 to V - 1.
absl::StatusOr<WordPieceTokenizer> ParseWordPieceJson(std::string_view text,
                                                      const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_WORDPIECE_JSON_H_
