// Candidate pairs of near-duplicates by locality-sensitive hashing of MinHash signatures (Broder
// 1997; Leskovec et al., Mining of Massive Datasets, chapter 3), without the neighbor graph.
//
// A signature has bands x rows values; two documents have equal values at a position with the
// probability J, the Jaccard similarity of their sets of character 5-grams (deduplicate.h). Two
// documents are candidates when at least rows - 1 of the rows values of any band are equal. With 14
// bands of 8 a pair of J = .8 is a candidate with the probability 1 - (1 - J^8 - 8 J^7 (1 - J))^14
// = .9999, while whole bands alone would find 1 - (1 - J^8)^14 = .92 of such pairs. Candidates
// whose whole signatures agree too little for min_jaccard are left out.
//
// Memory: 2 x bands x rows bytes per document, 16 while a band is searched, and 24 per candidate.
// Time: O(n log n) per band and row, plus that of hashing every 5-gram bands x rows times.
#ifndef BRAID_PIPELINE_ORDERING_MINHASH_H_
#define BRAID_PIPELINE_ORDERING_MINHASH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/ordering/deduplicate.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"

namespace braid {

struct MinHashOptions {
  int32_t bands = 14;
  int32_t rows = 8;  // at least 2
  uint64_t seed = 0;
  double min_jaccard = 0.8;
};

// Returns the candidates among the documents whose `first` is their own number, ascending by
// (later, earlier), each once, with cosine 0.
//
// In a group of documents with equal values, which may be all of a corpus, each is paired with the
// first 32 of the group only: near-duplicates of documents that are kept.
//
// Requires: first.size() == documents.size(). Guarantees: the same result for any number of
// threads. Units of `progress`: documents. Errors: those of `progress`.
absl::StatusOr<std::vector<DuplicateCandidate>> MinHashCandidates(const DocumentStore& documents,
                                                                  std::span<const uint32_t> first,
                                                                  const MinHashOptions& options,
                                                                  const ProgressCallback& progress);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_MINHASH_H_
