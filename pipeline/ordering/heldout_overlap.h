// Detection of training documents that nearly repeat a held-out document.
//
// Removing duplicates before the split is not enough to keep near-duplicates on one side of it: of
// a chain a ~ b ~ c only b is removed, and near-duplicates that are missing from each other's
// neighbor lists are never compared. Therefore every training document is compared with every
// held-out one after the split.
//
// Algorithm: index the held-out texts (near_duplicate_index.h), as many at a time as memory allows;
// look up every training text in each index; then add the pairs that an edge of the neighbor graph
// joins with a high cosine. Time linear in the training text per index; memory about 11 times the
// text of one index.
#ifndef BRAID_PIPELINE_ORDERING_HELDOUT_OVERLAP_H_
#define BRAID_PIPELINE_ORDERING_HELDOUT_OVERLAP_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/ordering/similarity_order.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"

namespace braid {

struct HeldoutOverlapOptions {
  double min_jaccard = 0.8;  // over the character 5-grams of normalized texts (deduplicate.h)
  double max_cosine = 0.9;   // in the neighbor lists; above 1: cosines are ignored
  // Bytes of held-out text per index. More held-out text takes further passes over the training
  // documents. An index needs about 11 times its text.
  int64_t max_index_bytes = int64_t{32} << 20;
};

struct HeldoutOverlap {
  uint32_t document = 0;  // the training document
  uint32_t heldout = 0;   // a held-out document that it nearly repeats
  double cosine = 0;      // from the neighbor lists; 0 when the pair is in neither list
  double jaccard = 0;
  // The greater share of the runs of 13 words of either document that the other has, without
  // boilerplate (heldout_containment.h); 0 unless the overlap was found by it.
  double containment = 0;
};

// Divides the held-out documents into blocks of at most max_bytes of text, or of a single document.
std::vector<std::span<const uint32_t>> HeldoutBlocks(const DocumentStore& documents,
                                                     std::span<const uint32_t> heldout,
                                                     int64_t max_bytes);

// Returns the Jaccard similarity of the character 5-grams of two documents (deduplicate.h).
double TextJaccard(const DocumentStore& documents, uint32_t a, uint32_t b);

// Returns the documents of `training` whose Jaccard similarity with any document of `heldout` is at
// least min_jaccard, or that a neighbor list joins to one with a cosine of at least max_cosine.
//
// Requires: both lists ascending and disjoint.
// Guarantees: ascending by document, each once; no pair that reaches min_jaccard is missed; the
// same result for any number of threads. Units of `progress`: training documents. Errors: those of
// `progress`.
absl::StatusOr<std::vector<HeldoutOverlap>> FindHeldoutOverlaps(
    const DocumentStore& documents, const NeighborLists& lists, std::span<const uint32_t> training,
    std::span<const uint32_t> heldout, const HeldoutOverlapOptions& options,
    const ProgressCallback& progress);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_HELDOUT_OVERLAP_H_
