// Encodes much text with one tokenizer, remembering the tokens of words.
//
// Words repeat: SentencePiece's BPE merges the same few characters again each time,
// at a few MB/s. Where the model allows a cut before each word (word_boundaries.h)
// a word's tokens are looked up, and only new words are encoded. The ids are those of
// Tokenizer::Encode.
//
//   WordEncoder encoder(tokenizer);
//   std::vector<int32_t> ids;
//   for (std::string_view text : texts) encoder.Encode(text, &ids);
#ifndef BRAID_FORMATS_WORD_ENCODER_H_
#define BRAID_FORMATS_WORD_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "formats/tokenizer.h"

namespace braid {

// Not thread-safe: one for each thread. Requires: the tokenizer outlives it.
class WordEncoder {
 public:
  // Forgets everything when the words and tokens remembered reach about `max_bytes`.
  explicit WordEncoder(const Tokenizer& tokenizer, size_t max_bytes = size_t{64} << 20);

  // Appends the token ids of `text` to `ids`: those of tokenizer.Encode(text).
  void Encode(std::string_view text, std::vector<int32_t>* ids);

 private:
  struct TokenRun {
    uint32_t begin = 0;  // in tokens_
    uint32_t size = 0;
  };

  size_t PartEnd(std::string_view text, size_t begin) const;
  void EncodePart(std::string_view part, bool is_first, std::vector<int32_t>* ids);
  void EncodeWord(std::string_view word, size_t num_skipped, std::vector<int32_t>* ids);
  std::span<const int32_t> Remember(std::string_view word, const std::vector<int32_t>& tokens);
  bool IsLineMark(char c) const;

  const Tokenizer& tokenizer_;
  const size_t max_bytes_;
  absl::flat_hash_map<std::string, TokenRun> words_;
  std::vector<int32_t> tokens_;
  size_t word_bytes_ = 0;
};

}  // namespace braid

#endif  // BRAID_FORMATS_WORD_ENCODER_H_
