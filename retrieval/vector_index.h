// FAISS behind a wall: an index of id -> vector searched by inner product, and
// exact search without an index. Errors of FAISS (which throws) arrive as status.
#ifndef BRAID_RETRIEVAL_VECTOR_INDEX_H_
#define BRAID_RETRIEVAL_VECTOR_INDEX_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "formats/manifest.h"
#include "retrieval/parallel_for.h"

namespace braid {

// Where a search puts its answer; both [queries, k], row-major, by descending
// score and then ascending id. An id of -1 (score 0) stands where fewer exist.
struct SearchOutput {
  std::span<int64_t> ids;
  std::span<float> scores;
};

// Puts each row of k results in the order promised above and replaces the scores
// of missing ones.
void SortSearchOutput(int32_t k, SearchOutput output);

// The k vectors of `base` [n, d] with the largest inner product with each of
// `queries` [m, d], by blocks of one matrix product (fast from 20 queries on);
// ids are rows of `base`. Exact up to the rounding of that product: ties may fall
// either way at the k-th place. Extra memory does not depend on n.
// Errors: those of `check`.
absl::Status ExactSearch(std::span<const float> base, std::span<const float> queries, int32_t d,
                         int32_t k, SearchOutput output, const StopCheck& check = nullptr);

// Search is thread-safe against Search; everything else needs exclusion.
class VectorIndex {
 public:
  // `factory` is a FAISS index_factory string such as "Flat", "IVF1024,Flat",
  // "IVF1024,PQ32", "HNSW32". INVALID_ARGUMENT when FAISS cannot make it for
  // dimension d.
  static absl::StatusOr<std::unique_ptr<VectorIndex>> Create(int32_t d, const std::string& factory);
  // Reads what Save wrote, DIRECTORY/file.name. FAISS believes whatever a file says, sizes and
  // indices too: so it is shown only bytes that have the length and CRC of `file`, and there is
  // no other way to read an index. DATA_LOSS otherwise, and when FAISS cannot read it;
  // NOT_FOUND when it is not there.
  static absl::StatusOr<std::unique_ptr<VectorIndex>> Load(const std::filesystem::path& directory,
                                                           const ManifestEntry& file);
  virtual ~VectorIndex() = default;

  virtual int32_t dimension() const = 0;
  virtual int64_t num_vectors() const = 0;
  virtual bool is_trained() const = 0;
  // Inverted lists of an IVF index.
  virtual std::optional<int64_t> num_lists() const = 0;
  // Lists searched for each query. Requires: num_lists().
  virtual void SetProbes(int64_t num_probes) = 0;

  // vectors: [n, d]. INVALID_ARGUMENT for too few.
  virtual absl::Status Train(std::span<const float> vectors) = 0;
  // FAILED_PRECONDITION before training; ids: [n], vectors: [n, d].
  virtual absl::Status Add(std::span<const int64_t> ids, std::span<const float> vectors) = 0;
  // queries: [m, d]; any m, k >= 1.
  virtual absl::Status Search(std::span<const float> queries, int32_t k,
                              SearchOutput output) const = 0;
  virtual absl::StatusOr<FileSummary> Save(const std::filesystem::path& path) const = 0;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_VECTOR_INDEX_H_
