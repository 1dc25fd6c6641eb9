// The k-nearest-neighbor graph of a corpus: for each document, the k others with the highest
// cosine. The graph that in-context pretraining (arXiv 2310.10638, 2.1) traverses to place similar
// documents next to each other.
//
//   ASSIGN_OR_RETURN(const NeighborGraphSearch search,
//                    NeighborGraphSearch::Prepare({vectors, n, d}, config, seed, check));
//   RETURN_IF_ERROR(search.Find(0, {ids, scores}, check));
//   ids[document * search.k()]  // its nearest neighbor
#ifndef BRAID_RETRIEVAL_NEIGHBOR_GRAPH_H_
#define BRAID_RETRIEVAL_NEIGHBOR_GRAPH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "retrieval/inverted_lists.h"
#include "retrieval/neighbor_search.h"    // kNoNeighbor
#include "retrieval/neighbor_settings.h"  // AutomaticIndex
#include "retrieval/parallel_for.h"       // SetRetrievalThreads
#include "retrieval/recall_sample.h"
#include "retrieval/remote_neighbors.h"

namespace braid {

// The state that is computed before the search of the first document. A search that continues from
// a stored plan gives the same result.
struct NeighborPlan {
  RecallSample sample;
  // Centroids of the lists, [num_lists, d]; empty for a search without lists.
  std::vector<float> centroids = {};
  // The lists of these centroids, or else a FAISS index. They exist in this process only.
  std::unique_ptr<InvertedLists> lists;
  std::unique_ptr<VectorIndex> index;
  int64_t num_probes = 0;  // 0 without lists
};

// The search of a whole corpus, block by block.
class NeighborGraphSearch {
 public:
  // Documents of a block: the rows of a block do not depend on the number of threads or on which
  // blocks were searched before.
  static constexpr int64_t kBlock = 16'384;

  // Prepares a search of `vectors` [n, d], L2-normalized or zero, which must outlive the result.
  // `remote`, if not null, searches instead of this process, with equal results, and must outlive
  // the result too.
  //
  // config.index "auto" (or empty) searches exactly up to 100,000 documents, through IVF,Flat with
  // 4 sqrt(n) lists above, and through IVF,PQ above 20 million; a FAISS index_factory string
  // overrides, where "Flat" is the exact search. Without config.nprobe, an IVF index searches more
  // lists until recall@k on the sample reaches 0.91 or stops growing.
  //
  // Exact graphs depend only on the vectors and k. Others also depend on the seed (training sample,
  // recall sample), FAISS and the BLAS; IVF,Flat does not depend on the number of threads.
  //
  // Memory in addition to `vectors` and the rows: blocks of queries (list_search.h); for a FAISS
  // index also the index and its training sample.
  //
  // INVALID_ARGUMENT for vectors that are not [n, d], not finite or not normalized, k < 0, or an
  // invalid index string, with `remote` any but "Flat" and "IVF<lists>,Flat"; the errors of
  // `check`.
  static absl::StatusOr<NeighborGraphSearch> Prepare(const DocumentVectors& vectors,
                                                     const v1::NeighborConfig& config,
                                                     uint64_t seed, const StopCheck& check,
                                                     RemoteNeighbors* remote = nullptr);
  // Continues with the plan that Prepare made for the same vectors, config and seed, in this
  // process or in another, whose plans contain no lists.
  static absl::StatusOr<NeighborGraphSearch> Resume(const DocumentVectors& vectors,
                                                    const v1::NeighborConfig& config,
                                                    NeighborPlan plan, const StopCheck& check,
                                                    RemoteNeighbors* remote = nullptr);

  int32_t k() const { return settings_.k; }
  const NeighborPlan& plan() const { return plan_; }
  // Returns a description such as "Flat (exact)" or "IVF1549,Flat nprobe=64".
  std::string description() const;
  // Returns how many documents to search at once: whole blocks, enough for every thread.
  int64_t chunk_documents() const;

  // Searches the documents begin, begin + 1, ..., as many as `rows` has. A row never contains the
  // document itself. The first error of `check` ends the search within two seconds and is returned.
  absl::Status Find(int64_t begin, NeighborRows rows, const StopCheck& check) const;

  // Returns recall@k of the whole graph, [n, k], as RecallSample::Recall does.
  double Recall(std::span<const uint32_t> ids, std::span<const float> scores) const;

 private:
  NeighborGraphSearch(const DocumentVectors& vectors, NeighborSettings settings, NeighborPlan plan,
                      RemoteNeighbors* remote);

  NeighborSettings settings_;
  NeighborPlan plan_;
  bool is_remote_;
  std::unique_ptr<NeighborSearch> search_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_GRAPH_H_
