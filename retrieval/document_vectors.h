// The embeddings of a corpus, as searched.
#ifndef BRAID_RETRIEVAL_DOCUMENT_VECTORS_H_
#define BRAID_RETRIEVAL_DOCUMENT_VECTORS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace braid {

// The vectors of n documents, row-major [n, d]; each of norm 1 or all zero.
struct DocumentVectors {
  std::span<const float> values;
  int64_t n;
  int32_t d;

  const float* row(int64_t document) const { return values.data() + document * d; }
};

// The rows of `documents`, one after another, in `rows`.
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
