// Views of the embeddings of a corpus, for searches.
#ifndef BRAID_RETRIEVAL_DOCUMENT_VECTORS_H_
#define BRAID_RETRIEVAL_DOCUMENT_VECTORS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace braid {

// The vectors of n documents, row-major [n, d]; each of norm 1 or all zero.
struct DocumentVectors {
  std::span<const float> values;
  int64_t n;
  int32_t d;

  const float* row(int64_t document) const { return values.data() + document * d; }
};

// Returns INVALID_ARGUMENT, naming the first vector at fault, unless each of `values` [n, d] is
// zero or has norm 1 within 0.0005. The vectors are numbered from `first` on.
absl::Status CheckUnitVectors(std::span<const float> values, int32_t d, int64_t first = 0);

// Replaces an id where a document has fewer neighbors than requested.
inline constexpr uint32_t kNoNeighbor = 0xFFFFFFFF;

// Vectors whose neighbors are searched: rows of `vectors`. They may be documents of the searched
// corpus, which are not neighbors of themselves.
struct NeighborQueries {
  DocumentVectors vectors;
  std::span<const uint32_t> rows;
  bool are_documents;

  size_t size() const { return rows.size(); }
  const float* row(size_t i) const { return vectors.row(rows[i]); }
  // Returns the document that does not count as a neighbor of query i.
  uint32_t excluded(size_t i) const { return are_documents ? rows[i] : kNoNeighbor; }
  NeighborQueries subspan(size_t begin, size_t count) const {
    return {vectors, rows.subspan(begin, count), are_documents};
  }
};

// Copies the vectors of `documents`, one after another, to `rows`.
inline void GatherRows(const DocumentVectors& vectors, std::span<const uint32_t> documents,
                       std::vector<float>* rows) {
  rows->clear();
  rows->reserve(documents.size() * static_cast<size_t>(vectors.d));
  for (uint32_t document : documents) {
    rows->insert(rows->end(), vectors.row(document), vectors.row(document) + vectors.d);
  }
}

}  // namespace braid

#endif  // BRAID_RETRIEVAL_DOCUMENT_VECTORS_H_
