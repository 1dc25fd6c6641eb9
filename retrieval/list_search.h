// The k nearest documents through inverted lists, list by list.
//
// FAISS searches an IVF index query by query, scanning the vectors of the lists that the query
// probes. When every document of a corpus is a query, it is faster to swap the loops: for each
// list, one matrix product of all queries of a block that probe it with all its vectors.
#ifndef BRAID_RETRIEVAL_LIST_SEARCH_H_
#define BRAID_RETRIEVAL_LIST_SEARCH_H_

#include <cstdint>
#include <memory>

#include "retrieval/inverted_lists.h"
#include "retrieval/neighbor_search.h"

namespace braid {

// Maximum queries that a thread searches together. Find gives the same bytes however a corpus is
// divided into calls at multiples of it.
inline constexpr int64_t kListSearchBlock = 16'384;

// The arithmetic by which candidates are scored. kBytes rounds vectors to bytes, which takes a
// quarter of the time on processors with support (byte_product.h), and searches again with floats
// where rounding could change the result.
enum class ListArithmetic { kFastest, kFloats, kBytes };

// Creates a search for the k best among the documents of the SetProbes() lists whose centroids are
// nearest to the document (initially 1). The result equals comparing with each of them, ties
// included; with bytes, except for rounding errors beyond six standard deviations.
//
// Memory in addition to vectors and lists: for each thread at most 2^24 pairs of query and list of
// 8 bytes, and 64 (k + 4) bytes for each of kListSearchBlock queries; with bytes also d + 4 bytes
// per document. Requires that vectors and lists outlive the result.
std::unique_ptr<VectorSearch> MakeListNeighborSearch(
    const DocumentVectors& vectors, int32_t k, const InvertedLists* lists,
    ListArithmetic arithmetic = ListArithmetic::kFastest);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_LIST_SEARCH_H_
