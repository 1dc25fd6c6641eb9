// The slow oracle of the stored spans: spans in packing order, renumbered and sorted.
#ifndef BRAID_TESTS_PIPELINE_ORDERING_SHUFFLED_SPANS_H_
#define BRAID_TESTS_PIPELINE_ORDERING_SHUFFLED_SPANS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "pipeline/ordering/packing.h"

namespace braid {

// Returns the spans by (instance, instance_offset). Requires: `shuffle` is a permutation of all
// instances.
inline std::vector<ProvenanceSpan> ShuffleSpans(std::vector<ProvenanceSpan> spans,
                                                std::span<const uint32_t> shuffle) {
  std::vector<uint32_t> stored(shuffle.size());
  for (size_t i = 0; i < shuffle.size(); ++i) stored[shuffle[i]] = static_cast<uint32_t>(i);
  for (ProvenanceSpan& span : spans) span.instance = stored.at(span.instance);
  std::sort(spans.begin(), spans.end(), [](const ProvenanceSpan& a, const ProvenanceSpan& b) {
    return std::tie(a.instance, a.instance_offset) < std::tie(b.instance, b.instance_offset);
  });
  return spans;
}

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_ORDERING_SHUFFLED_SPANS_H_
