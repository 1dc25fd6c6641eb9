// A cache of the tokens of words, for WordEncoder.
//
// Text in many languages has millions of words, so a lookup costs as much as the memory accesses
// that it waits for. A word and its tokens share one cache line, which can be prefetched while
// earlier words are looked up.
//
//   const uint64_t hash = WordCache::Hash(word);
//   cache.Prefetch(hash);
//   ...                                         // other words
//   if (!cache.Append(word, hash, &ids)) { Encode(word, &ids); cache.Insert(word, hash, ...); }
#ifndef BRAID_FORMATS_WORD_CACHE_H_
#define BRAID_FORMATS_WORD_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace braid {

// Set-associative: a word has four places, and moves toward the first one with each hit. A new word
// replaces the last of them, so words that occur once do not displace frequent ones. Not
// thread-safe.
class WordCache {
 public:
  // Uses at most `max_bytes` rounded down to a power of two, at least 256 bytes. Pages are taken
  // from the system when words are first stored in them. Uses 256 bytes if the system has no such
  // range of addresses left, so that encoding becomes slower, but goes on.
  explicit WordCache(size_t max_bytes);

  static uint64_t Hash(std::string_view word);
  // Starts to load the first places of a word.
  void Prefetch(uint64_t hash) const { __builtin_prefetch(&places_[FirstPlace(hash)]); }
  // Appends the tokens of `word` to `ids`; returns false if they are not stored. `hash` is
  // Hash(word).
  bool Append(std::string_view word, uint64_t hash, std::vector<int32_t>* ids);
  // Stores the tokens of a word that Append did not find. Words that are empty, or do not fit in a
  // place with 3 bytes per token, are ignored; tokens are in [0, 2^24).
  void Insert(std::string_view word, uint64_t hash, std::span<const int32_t> tokens);

 private:
  static constexpr size_t kWays = 4;
  static constexpr size_t kBytesPerToken = 3;
  // One cache line. `bytes` has the word and then its tokens.
  struct alignas(64) Place {
    uint8_t size;  // bytes of the word; 0: free
    uint8_t num_tokens;
    std::array<char, 62> bytes;
  };
  struct Release {
    size_t num_bytes;  // mapped; 0: allocated by new
    void operator()(Place* places) const;
  };

  size_t FirstPlace(uint64_t hash) const { return (hash & set_mask_) * kWays; }

  uint64_t set_mask_;
  std::unique_ptr<Place[], Release> places_;
};

}  // namespace braid

#endif  // BRAID_FORMATS_WORD_CACHE_H_
