// Documents that would be trained on although they nearly repeat a held-out one.
//
// Removing duplicates first is not enough to keep them from standing on both
// sides of the split: of a chain a ~ b ~ c only b goes, and near-duplicates that
// are missing from each other's neighbour lists are never compared. So after the
// split every document of the training side is held against every held-out one.
#ifndef BRAID_PIPELINE_ORDERING_HELDOUT_OVERLAP_H_
#define BRAID_PIPELINE_ORDERING_HELDOUT_OVERLAP_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/ordering/similarity_order.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_advance.h"

namespace braid {

struct HeldoutOverlapOptions {
  double min_jaccard = 0.8;  // of character 5-grams, normalised (deduplicate.h)
  double max_cosine = 0.9;   // in the neighbour lists; above 1: cosines do not count
  // Held-out text compared at a time, in bytes; more takes another pass over the
  // training documents. An index takes about 11 times its text.
  int64_t max_index_bytes = int64_t{32} << 20;
};

struct HeldoutOverlap {
  uint32_t document = 0;  // would be trained on
  uint32_t heldout = 0;   // one that it nearly repeats
  double cosine = 0;      // as the neighbour lists have it; 0 when they do not
  double jaccard = 0;
};

// The documents of `training` that have min_jaccard or more with any of
// `heldout`, or that a neighbour list joins to one by max_cosine or more;
// ascending, each once. Exact in the first: no pair is missed.
//
// Requires: both lists ascending and disjoint. Works in parallel; the result
// does not depend on it. Units of `advance`: training documents.
absl::StatusOr<std::vector<HeldoutOverlap>> FindHeldoutOverlaps(
    const DocumentStore& documents, const NeighborLists& lists, std::span<const uint32_t> training,
    std::span<const uint32_t> heldout, const HeldoutOverlapOptions& options,
    const StageAdvance& advance);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_HELDOUT_OVERLAP_H_
