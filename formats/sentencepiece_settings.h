// The settings in a SentencePiece model that decide how it encodes text, and its unknown piece.
#ifndef BRAID_FORMATS_SENTENCEPIECE_SETTINGS_H_
#define BRAID_FORMATS_SENTENCEPIECE_SETTINGS_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace braid {

// The initial values are SentencePiece's defaults.
struct SentencePieceSettings {
  uint64_t model_type = 1;  // unigram; 2: BPE
  bool byte_fallback = false;
  bool space_is_suffix = false;
  bool rewrites_text = false;  // has rules of normalization
  bool adds_dummy_space = true;
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;
  int32_t unknown_id = 0;  // the piece that stands for characters without one
};

// Reads them from a serialized ModelProto; INVALID_ARGUMENT if it is truncated.
absl::StatusOr<SentencePieceSettings> ReadSentencePieceSettings(std::string_view model);

}  // namespace braid

#endif  // BRAID_FORMATS_SENTENCEPIECE_SETTINGS_H_
