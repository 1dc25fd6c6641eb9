// Finding and opening libbraid_sentencepiece.so.
#ifndef BRAID_FORMATS_SENTENCEPIECE_LIBRARY_H_
#define BRAID_FORMATS_SENTENCEPIECE_LIBRARY_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "formats/sentencepiece_module.h"

namespace braid {

// Returns the path of the module. NOT_FOUND, with the places searched, if there is none.
absl::StatusOr<std::filesystem::path> FindSentencePieceModule();

// Returns the functions of the module, which is opened at the first successful call and never
// closed. Thread-safe. Errors: those of finding it; FAILED_PRECONDITION if it cannot be loaded or
// is from another build.
absl::StatusOr<const SentencePieceApi*> OpenSentencePiece();

}  // namespace braid

#endif  // BRAID_FORMATS_SENTENCEPIECE_LIBRARY_H_
