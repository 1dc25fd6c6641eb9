// Tokens that other files add to a SentencePiece model, as pieces of the model.
#ifndef BRAID_FORMATS_ADDED_PIECES_H_
#define BRAID_FORMATS_ADDED_PIECES_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

struct AddedPiece {
  std::string content;
  int64_t id = 0;
  // A special token becomes a control piece, which is never found in text; another one becomes a
  // user-defined piece, which is.
  bool special = false;
};

// Returns a serialized ModelProto, which CheckSentencePieceModel accepts, with further pieces. The
// order of `tokens` does not matter; those that the model has under their ids are skipped.
// INVALID_ARGUMENT names a token whose content has another id in the model, and one whose id is not
// the next after the pieces. `path` is for messages.
absl::StatusOr<std::string> WithAddedPieces(std::string model, std::vector<AddedPiece> tokens,
                                            const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_FORMATS_ADDED_PIECES_H_
