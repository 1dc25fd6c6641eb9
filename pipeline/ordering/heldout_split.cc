#include "pipeline/ordering/heldout_split.h"

#include <xxhash.h>

#include <cmath>

namespace braid {
namespace {

// Makes the draw independent of other draws that hash the same ids with the same seed.
constexpr uint64_t kHeldoutSalt = 0x68656c642d6f7574;

}  // namespace

std::string_view SourceDocument(std::string_view id, int64_t split_bytes) {
  if (split_bytes == 0) return id;
  const size_t last = id.find_last_not_of("0123456789");
  const bool is_piece = last != id.npos && id[last] == '#' && last + 1 < id.size();
  return is_piece ? id.substr(0, last) : id;
}

bool IsHeldOut(std::string_view source, uint64_t seed, double fraction) {
  const uint64_t hash = XXH3_64bits_withSeed(source.data(), source.size(), seed ^ kHeldoutSalt);
  const double uniform = std::ldexp(static_cast<double>(hash >> 11), -53);  // in [0, 1)
  return uniform < fraction;
}

}  // namespace braid
