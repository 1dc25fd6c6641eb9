// The only interface to FAISS: an index of vectors with ids searched by inner product, and exact
// search without an index. Exceptions of FAISS are returned as status.
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

// The output of a search; both [queries, k], row-major, by descending score and then ascending id.
// Id -1 (score 0) where fewer vectors exist.
struct SearchOutput {
  std::span<int64_t> ids;
  std::span<float> scores;
};

// Sorts each row of k results into the order above and replaces the scores of missing ones.
void SortSearchOutput(int32_t k, SearchOutput output);

// Finds the k vectors of `base` [n, d] with the largest inner product with each of `queries` [m,
// d], by blocks of one matrix product (fast from 20 queries on); ids are rows of `base`. Exact up
// to the rounding of that product: ties may be decided either way at the k-th place. Additional
// memory does not depend on n. Errors: those of `check`.
absl::Status ExactSearch(std::span<const float> base, std::span<const float> queries, int32_t d,
                         int32_t k, SearchOutput output, const StopCheck& check = nullptr);

// An index. Concurrent calls of Search are safe; all other calls need exclusion.
class VectorIndex {
 public:
  // Creates an empty index. `factory` is a FAISS index_factory string such as "Flat",
  // "IVF1024,Flat", "IVF1024,PQ32", "HNSW32", whose graph one thread builds, so that it is always
  // the same. INVALID_ARGUMENT if FAISS cannot create it for dimension d, and as CheckFactory().
  static absl::StatusOr<std::unique_ptr<VectorIndex>> Create(int32_t d, const std::string& factory);
  // Checks what does not depend on the dimension. INVALID_ARGUMENT for numbers that are out of
  // range, and for kinds of indexes in which FAISS may crash or never return.
  static absl::Status CheckFactory(const std::string& factory);
  // Reads DIRECTORY/file.name, written by Save. FAISS trusts the sizes and indices in a file, so it
  // only gets bytes whose length and CRC match `file`, and there is no other way to read an index.
  // DATA_LOSS otherwise, and if FAISS cannot read it; NOT_FOUND if the file does not exist.
  static absl::StatusOr<std::unique_ptr<VectorIndex>> Load(const std::filesystem::path& directory,
                                                           const ManifestEntry& file);
  virtual ~VectorIndex() = default;

  virtual int32_t dimension() const = 0;
  virtual int64_t num_vectors() const = 0;
  virtual bool is_trained() const = 0;
  // Returns the number of inverted lists of an IVF index; nullopt for others.
  virtual std::optional<int64_t> num_lists() const = 0;
  // Sets the number of lists searched per query. Requires num_lists().
  virtual void SetProbes(int64_t num_probes) = 0;

  // Trains the index on vectors [n, d]. INVALID_ARGUMENT if there are too few.
  virtual absl::Status Train(std::span<const float> vectors) = 0;
  // Adds ids [n] and vectors [n, d]. FAILED_PRECONDITION before training.
  virtual absl::Status Add(std::span<const int64_t> ids, std::span<const float> vectors) = 0;
  // Searches queries [m, d] for any m and k >= 1.
  virtual absl::Status Search(std::span<const float> queries, int32_t k,
                              SearchOutput output) const = 0;
  virtual absl::StatusOr<FileSummary> Save(const std::filesystem::path& path) const = 0;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_VECTOR_INDEX_H_
