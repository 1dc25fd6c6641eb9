// Finds and opens libbraid_sentencepiece.so.
#ifndef BRAID_FORMATS_SENTENCEPIECE_LIBRARY_H_
#define BRAID_FORMATS_SENTENCEPIECE_LIBRARY_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "formats/sentencepiece_module.h"

namespace braid {

// The module's file. NOT_FOUND when there is none; the places searched are named.
absl::StatusOr<std::filesystem::path> FindSentencePieceModule();

// The module's functions. Opened at most once with success, never closed; thread-safe. Errors:
// those of finding it; FAILED_PRECONDITION when it does not load or is from another build.
absl::StatusOr<const SentencePieceApi*> OpenSentencePiece();

}  // namespace braid

#endif  // BRAID_FORMATS_SENTENCEPIECE_LIBRARY_H_
