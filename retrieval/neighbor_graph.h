// The k-nearest-neighbour graph of a corpus: for each document the k others of
// highest cosine. The graph that in-context pretraining (arXiv 2310.10638, 2.1)
// walks to put similar documents next to each other.
//
//   ASSIGN_OR_RETURN(NeighborGraph graph,
//                    BuildNeighborGraph(vectors, n, d, config, seed, nullptr));
//   graph.ids[document * graph.k]  // its nearest neighbour
#ifndef BRAID_RETRIEVAL_NEIGHBOR_GRAPH_H_
#define BRAID_RETRIEVAL_NEIGHBOR_GRAPH_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "retrieval/neighbor_search.h"  // kNoNeighbor
#include "retrieval/parallel_for.h"     // SetRetrievalThreads

namespace braid {

struct NeighborGraph {
  int32_t k = 0;
  // [n, k]: never the document itself, by descending score, ties by ascending
  // id; kNoNeighbor (score 0) at the end of a row that has fewer.
  std::vector<uint32_t> ids;
  // [n, k]: cosine similarity.
  std::vector<float> scores;
  // Measured on a sample of documents against exact search: the share of a
  // row's entries that are at least as similar as the true k-th neighbour
  // (so that a tie found the other way round counts). 1 when there are none.
  double recall_at_k = 0;
  // Such as "Flat (exact)" or "IVF1549,Flat nprobe=64".
  std::string index_description;
};

// vectors: [n, d], L2-normalised or zero. config.index "auto" (or empty) searches
// exactly up to 250,000 documents, through IVF,Flat with 4 sqrt(n) lists above, and
// through IVF,PQ above 20 million; a FAISS index_factory string overrides, "Flat"
// being the exact search. Without config.nprobe, an IVF index searches more lists
// until recall@k on the sample reaches 0.95, or stops growing.
//
// `progress`, if not null, is called from this thread with the number of
// documents searched so far. Memory beyond `vectors` and the result: a block of
// queries; for an index also the index and its training sample.
//
// Exact graphs depend on nothing but the vectors and k. Others also depend on
// the seed (training sample, recall sample) and on FAISS.
// INVALID_ARGUMENT: vectors not [n, d], not finite or not normalised, k < 0,
// or an impossible index string.
absl::StatusOr<NeighborGraph> BuildNeighborGraph(std::span<const float> vectors, int64_t n,
                                                 int32_t d, const v1::NeighborConfig& config,
                                                 uint64_t seed,
                                                 const std::function<void(int64_t done)>& progress);

// The index that "auto" stands for; "Flat" means exact search.
std::string AutomaticIndex(int64_t n, int32_t d);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_GRAPH_H_
