#include "retrieval/document_sample.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <unordered_set>

namespace braid {

std::vector<uint32_t> SampleDocuments(int64_t n, int64_t count, uint64_t seed) {
  if (count >= n) {
    std::vector<uint32_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }
  std::mt19937_64 random(seed);
  std::unordered_set<uint32_t> chosen;
  for (int64_t last = n - count; last < n; ++last) {
    // The bias of the modulo is below 2^-32.
    const auto draw = static_cast<uint32_t>(random() % static_cast<uint64_t>(last + 1));
    if (!chosen.insert(draw).second) chosen.insert(static_cast<uint32_t>(last));
  }
  std::vector<uint32_t> sample(chosen.begin(), chosen.end());
  std::sort(sample.begin(), sample.end());
  return sample;
}

}  // namespace braid
