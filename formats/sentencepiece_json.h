// SentencePiece models as the tokenizer.json of Hugging Face's `tokenizers` library, for programs
// that do not read SentencePiece.
#ifndef BRAID_FORMATS_SENTENCEPIECE_JSON_H_
#define BRAID_FORMATS_SENTENCEPIECE_JSON_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace braid {

// Returns the post_processor of a tokenizer.json that puts the piece `start` before each text.
nlohmann::ordered_json StartProcessor(const std::string& start, int32_t id);

// Returns the tokenizer.json that gives texts the ids of SentencePiece, with `start_id` before them
// where special tokens are asked for. Merges are the divisions of each piece into two, ordered by
// the score of the piece and then by the length of the first part; control pieces and <unk> are
// special tokens, which the library also finds in texts that spell them. The normalizer puts the
// dummy space before a text and before what follows a special token, like EncodeChat().
//
// UNIMPLEMENTED names the setting or the piece of a model that the library cannot express: one that
// is not BPE, without byte fallback, with rules of normalization, without the dummy space, with
// spaces removed, or with pieces that are unused, user-defined or not reached by merges.
// INVALID_ARGUMENT for bytes that are not a model.
absl::StatusOr<std::string> SentencePieceJson(std::string_view model,
                                              std::optional<int32_t> start_id);

}  // namespace braid

#endif  // BRAID_FORMATS_SENTENCEPIECE_JSON_H_
