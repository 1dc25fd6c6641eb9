// Tells a whole SentencePiece model from any other file before libsentencepiece sees it.
#ifndef BRAID_FORMATS_SENTENCEPIECE_MODEL_CHECK_H_
#define BRAID_FORMATS_SENTENCEPIECE_MODEL_CHECK_H_

#include <filesystem>
#include <string_view>

#include "absl/status/status.h"

namespace braid {

// Walks the top level of a serialised ModelProto {pieces = 1, trainer_spec = 2, normalizer_spec =
// 3, ...}. INVALID_ARGUMENT when `bytes` is no such message, DATA_LOSS when it begins like one but
// is cut short; `path` is for the message.
absl::Status CheckSentencePieceModel(const std::filesystem::path& path, std::string_view bytes);

}  // namespace braid

#endif  // BRAID_FORMATS_SENTENCEPIECE_MODEL_CHECK_H_
