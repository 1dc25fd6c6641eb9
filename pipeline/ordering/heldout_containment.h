// Detection of training documents that contain held-out text, or are contained in it, and the share
// of held-out text that remains in the training documents.
//
// A similarity misses containment: a document made of a held-out one and as much other text has a
// Jaccard similarity of at most 1/2 with it. Therefore texts are also compared by their runs of 13
// words (formats/word_runs.h), counted by position.
//
// A run that more than max_run_documents training documents have, such as a license header, is
// boilerplate and does not count: otherwise one held-out document that is little more than a
// license would exclude every file that carries the license. The share of the held-out document
// that a training document has is that of its other runs; the share of the training document is
// that of its runs without the boilerplate that both have.
//
// Algorithm: index the runs of the held-out texts (word_run_index.h), as many texts at a time as
// memory allows. A first pass over the training documents counts the documents of each run; a
// second one, over those that share any run, counts the runs that they share with each held-out
// document. As only runs of at most max_run_documents documents count, both take time linear in the
// text. A last pass marks the runs that the remaining training documents have.
#ifndef BRAID_PIPELINE_ORDERING_HELDOUT_CONTAINMENT_H_
#define BRAID_PIPELINE_ORDERING_HELDOUT_CONTAINMENT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/ordering/heldout_overlap.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"

namespace braid {

struct ContainmentOptions {
  // Share of the runs of either document, without boilerplate, that the other has; above 0. Above
  // 1: no document is found, but the remaining shares are still measured.
  double min_share = 0.5;
  uint32_t max_run_documents = 32;
  // Bytes of held-out text per index. An index needs about 8 times its text.
  int64_t max_index_bytes = int64_t{32} << 20;
};

// The runs of a held-out document, by position, and those of them that a training document has.
struct RunShare {
  int64_t num_runs = 0;  // 0 for a document of fewer than 13 words
  int64_t num_shared = 0;
};

struct Containment {
  // Ascending by document, each once, with the held-out document of the greatest share, the lowest
  // of equal ones. `cosine` is 0.
  std::vector<HeldoutOverlap> overlaps;
  // For each held-out document, with all runs, boilerplate included, and the training documents
  // that are not in `overlaps`.
  std::vector<RunShare> shares;
};

// Finds the documents of `training` that share at least min_share of their own runs, or of those of
// a held-out document, with a document of `heldout`.
//
// Requires: both lists ascending and disjoint.
// Guarantees: no pair is missed; the same result for any number of threads and any max_index_bytes.
// Units of `progress`: training documents. Errors: those of `progress`.
absl::StatusOr<Containment> FindContainment(const DocumentStore& documents,
                                            std::span<const uint32_t> training,
                                            std::span<const uint32_t> heldout,
                                            const ContainmentOptions& options,
                                            const ProgressCallback& progress);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_HELDOUT_CONTAINMENT_H_
