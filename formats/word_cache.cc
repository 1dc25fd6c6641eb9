#include "formats/word_cache.h"

// A word has a few bytes, so the call of a library function would cost more than hashing it.
#define XXH_INLINE_ALL
#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace braid {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

template <class Word>
bool SameBytes(const char* a, const char* b) {
  Word x, y;
  std::memcpy(&x, a, sizeof(Word));
  std::memcpy(&y, b, sizeof(Word));
  return x == y;
}

// Compares n bytes by words that overlap, without the call of a library function.
bool SameWord(const char* a, const char* b, size_t n) {
  if (n >= 8) {
    for (size_t i = 0; i + 8 < n; i += 8) {
      if (!SameBytes<uint64_t>(a + i, b + i)) return false;
    }
    return SameBytes<uint64_t>(a + n - 8, b + n - 8);
  }
  if (n >= 4) return SameBytes<uint32_t>(a, b) && SameBytes<uint32_t>(a + n - 4, b + n - 4);
  for (size_t i = 0; i < n; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

int32_t LoadToken(const char* bytes) {
  const auto at = [&](size_t i) { return uint32_t{static_cast<uint8_t>(bytes[i])}; };
  return static_cast<int32_t>(at(0) | at(1) << 8 | at(2) << 16);
}

}  // namespace

void WordCache::Release::operator()(Place* places) const {
  if (num_bytes == 0) {
    delete[] places;
  } else {
    munmap(places, num_bytes);
  }
}

WordCache::WordCache(size_t max_bytes) : places_(nullptr, Release{0}) {
  const size_t num_bytes = std::bit_floor(std::max(max_bytes, kWays * sizeof(Place)));
  void* const mapped =
      mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    set_mask_ = 0;
    places_ = std::unique_ptr<Place[], Release>(new Place[kWays](), Release{0});
    return;
  }
  // Words are scattered over all pages; the hint saves most misses of the TLB and may be ignored.
  if (num_bytes >= 4 * kHugePageBytes) madvise(mapped, num_bytes, MADV_HUGEPAGE);
  set_mask_ = num_bytes / (kWays * sizeof(Place)) - 1;
  places_ = std::unique_ptr<Place[], Release>(static_cast<Place*>(mapped), Release{num_bytes});
}

uint64_t WordCache::Hash(std::string_view word) { return XXH3_64bits(word.data(), word.size()); }

bool WordCache::Append(std::string_view word, uint64_t hash, std::vector<int32_t>* ids) {
  Place* const places = &places_[FirstPlace(hash)];
  for (size_t way = 0; way < kWays; ++way) {
    const Place& place = places[way];
    if (place.size == 0) return false;
    if (place.size != word.size() || !SameWord(place.bytes.data(), word.data(), word.size())) {
      continue;
    }
    const char* tokens = place.bytes.data() + word.size();
    if (place.num_tokens == 1) {
      ids->push_back(LoadToken(tokens));
    } else {
      const size_t before = ids->size();
      ids->resize(before + place.num_tokens);
      int32_t* const appended = ids->data() + before;
      for (size_t i = 0; i < place.num_tokens; ++i) {
        appended[i] = LoadToken(tokens + i * kBytesPerToken);
      }
    }
    if (way > 0) std::swap(places[way - 1], places[way]);
    return true;
  }
  return false;
}

void WordCache::Insert(std::string_view word, uint64_t hash, std::span<const int32_t> tokens) {
  if (word.empty() || word.size() + tokens.size() * kBytesPerToken > sizeof(Place::bytes)) return;
  Place* const places = &places_[FirstPlace(hash)];
  Place* const place =
      std::find_if(places, places + kWays - 1, [](const Place& p) { return p.size == 0; });
  place->size = static_cast<uint8_t>(word.size());
  place->num_tokens = static_cast<uint8_t>(tokens.size());
  char* bytes = std::copy(word.begin(), word.end(), place->bytes.data());
  for (const int32_t token : tokens) {
    BRAID_CHECK(token >= 0 && token < 1 << 24) << token;
    for (int shift = 0; shift < 24; shift += 8) *bytes++ = static_cast<char>(token >> shift);
  }
}

}  // namespace braid
