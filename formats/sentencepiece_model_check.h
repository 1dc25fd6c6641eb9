// Validation of SentencePiece model files before libsentencepiece reads them.
#ifndef BRAID_FORMATS_SENTENCEPIECE_MODEL_CHECK_H_
#define BRAID_FORMATS_SENTENCEPIECE_MODEL_CHECK_H_

#include <filesystem>
#include <string_view>

#include "absl/status/status.h"

namespace braid {

// Parses the top level of a serialized ModelProto {pieces = 1, trainer_spec = 2, normalizer_spec =
// 3, ...}. INVALID_ARGUMENT if `bytes` is not such a message, which names a vocabulary of tiktoken
// and a text file; DATA_LOSS if it begins like one but is truncated; `path` is for the message.
absl::Status CheckSentencePieceModel(const std::filesystem::path& path, std::string_view bytes);

}  // namespace braid

#endif  // BRAID_FORMATS_SENTENCEPIECE_MODEL_CHECK_H_
