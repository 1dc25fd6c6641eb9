#include "base/field_digest.h"

#include <xxhash.h>

#include <cstdint>

#include "absl/strings/str_format.h"

namespace braid {

FieldDigest::FieldDigest() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }

void FieldDigest::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void FieldDigest::Add(std::string_view field) {
  const uint64_t size = field.size();
  XXH3_128bits_update(state_.get(), &size, sizeof(size));
  XXH3_128bits_update(state_.get(), field.data(), field.size());
}

std::string FieldDigest::Hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

}  // namespace braid
