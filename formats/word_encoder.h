// An encoder for large amounts of text that caches the tokens of words.
//
// Words repeat, but BPE merges the characters of each occurrence again, at a few MB/s. Byte-level
// BPE cuts texts into pieces, and many SentencePiece models allow it (word_boundaries.h): the
// tokens of a word are looked up, and only new words are encoded. The ids are those of
// Tokenizer::Encode.
//
//   WordEncoder encoder(tokenizer);
//   std::vector<int32_t> ids;
//   for (std::string_view text : texts) encoder.Encode(text, &ids);
#ifndef BRAID_FORMATS_WORD_ENCODER_H_
#define BRAID_FORMATS_WORD_ENCODER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "formats/tokenizer.h"

namespace braid {

// Not thread-safe; use one per thread. The tokenizer must outlive it.
class WordEncoder {
 public:
  // Caches about `max_bytes` of words and tokens, the most recent ones.
  explicit WordEncoder(const Tokenizer& tokenizer, size_t max_bytes = size_t{128} << 20);

  // Appends the token ids of `text`, equal to tokenizer.Encode(text), to `ids`.
  void Encode(std::string_view text, std::vector<int32_t>* ids);

 private:
  // Words and their tokens.
  struct Memory {
    struct Run {
      uint32_t begin = 0;  // in tokens
      uint32_t size = 0;
    };
    absl::flat_hash_map<std::string, Run> words;
    std::vector<int32_t> tokens;
    size_t num_bytes = 0;
  };

  void EncodeCut(std::string_view text, std::vector<int32_t>* ids);
  void EncodeWord(std::string_view word, std::vector<int32_t>* ids);
  bool Recall(const Memory& memory, std::string_view word, std::vector<int32_t>* ids) const;
  void Remember(std::string_view word, const int32_t* tokens, size_t num_tokens);
  void EncodeAlone(std::string_view word, std::vector<int32_t>* ids) const;

  const Tokenizer& tokenizer_;
  const size_t max_bytes_;  // limit for each memory
  size_t num_mark_tokens_ = 0;
  std::array<std::vector<int32_t>, 128> characters_;  // tokens for words of one ASCII character
  // Words are added to the newer memory; when it is full it becomes the older one, from which words
  // that are still in use are copied back.
  Memory newer_, older_;
  std::string spaced_;  // scratch
};

}  // namespace braid

#endif  // BRAID_FORMATS_WORD_ENCODER_H_
