// Partition of a flat array over ranks.
#ifndef BRAID_MODEL_CONFIG_SHARD_H_
#define BRAID_MODEL_CONFIG_SHARD_H_

#include <algorithm>
#include <cstddef>

namespace braid {

// The elements [begin, end).
struct Shard {
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
  bool operator==(const Shard&) const = default;
};

// Shards start at multiples of this many elements: one cache line of floats, so that two ranks (or
// threads) never write to the same line.
inline constexpr size_t kShardAlignment = 16;

// Returns the shard of rank `rank` of an array of `size` elements. The shards of all ranks, in rank
// order, cover the array without gaps; the last ones may be empty.
inline Shard ShardOf(size_t size, int rank, int world_size) {
  const size_t world = static_cast<size_t>(world_size);
  const size_t lines = (size + kShardAlignment - 1) / kShardAlignment;
  const size_t part = (lines + world - 1) / world * kShardAlignment;
  const size_t begin = std::min(size, part * static_cast<size_t>(rank));
  return {begin, std::min(size, begin + part)};
}

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_SHARD_H_
