#include "pipeline/supervised/example_packing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/splitmix.h"

namespace braid {

std::vector<std::vector<uint32_t>> PackBestFit(std::span<const int32_t> lengths, int64_t capacity,
                                               uint64_t seed) {
  std::vector<uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto key = [&](uint32_t i) {
    return std::tuple(-int64_t{lengths[i]}, Mix64(seed, uint64_t{i}), i);
  };
  std::ranges::sort(order, {}, key);
  std::vector<std::vector<uint32_t>> sequences;
  std::set<std::pair<int64_t, size_t>> rooms;  // (tokens left, sequence)
  for (const uint32_t example : order) {
    const int64_t length = lengths[example];
    BRAID_CHECK(length >= 1 && length <= capacity) << length << " of " << capacity;
    const auto fit = rooms.lower_bound({length, 0});
    const bool found = fit != rooms.end();
    const size_t sequence = found ? fit->second : sequences.size();
    const int64_t room = found ? fit->first : capacity;
    if (found) {
      rooms.erase(fit);
    } else {
      sequences.emplace_back();
    }
    sequences[sequence].push_back(example);
    rooms.emplace(room - length, sequence);
  }
  return sequences;
}

std::vector<std::vector<uint32_t>> PackSingly(int64_t num_examples) {
  std::vector<std::vector<uint32_t>> sequences(static_cast<size_t>(num_examples));
  for (size_t i = 0; i < sequences.size(); ++i) sequences[i] = {static_cast<uint32_t>(i)};
  return sequences;
}

}  // namespace braid
