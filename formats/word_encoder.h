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
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer.h"
#include "formats/word_cache.h"

namespace braid {

// Not thread-safe; use one per thread. The tokenizer must outlive it.
class WordEncoder {
 public:
  // Caches at most `max_bytes` of words and tokens, the frequent ones (word_cache.h).
  explicit WordEncoder(const Tokenizer& tokenizer, size_t max_bytes = size_t{128} << 20);

  // Appends the token ids of `text`, equal to tokenizer.Encode(text), to `ids`. Throws what that
  // throws.
  void Encode(std::string_view text, std::vector<int32_t>* ids);

 private:
  static constexpr size_t kMaxWordBytes = 48;  // longer words seldom repeat
  struct Word {
    uint64_t hash;
    size_t size;
    std::array<char, kMaxWordBytes> bytes;
  };

  void EncodeCut(std::string_view text, std::vector<int32_t>* ids);
  void Add(std::string_view word, std::vector<int32_t>* ids);
  void EncodeWaiting(std::vector<int32_t>* ids);
  void EncodeWord(std::string_view word, uint64_t hash, std::vector<int32_t>* ids);
  void EncodeAlone(std::string_view word, std::vector<int32_t>* ids) const;

  const Tokenizer& tokenizer_;
  size_t num_mark_tokens_ = 0;
  std::array<std::vector<int32_t>, 256> characters_;  // tokens for words of one byte
  WordCache cache_;
  // Words whose places in the cache are being loaded, the first num_waiting_ of them.
  std::array<Word, 32> waiting_;
  size_t num_waiting_ = 0;
  std::string spaced_;  // scratch
};

// Encoders that threads borrow, which keeps their caches from task to task. Thread-safe. The
// tokenizer must outlive it.
class WordEncoderPool {
 public:
  // At most `num_threads` borrow at a time; their caches share `max_bytes`.
  WordEncoderPool(const Tokenizer& tokenizer, int num_threads, size_t max_bytes = size_t{256} << 20)
      : tokenizer_(tokenizer), bytes_each_(max_bytes / static_cast<size_t>(num_threads)) {}

  std::unique_ptr<WordEncoder> Borrow();
  void Return(std::unique_ptr<WordEncoder> encoder);

 private:
  const Tokenizer& tokenizer_;
  const size_t bytes_each_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<WordEncoder>> idle_;  // guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_FORMATS_WORD_ENCODER_H_
