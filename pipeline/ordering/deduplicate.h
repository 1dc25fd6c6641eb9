// Removal of exact duplicates and near-duplicates. It runs before ordering, because the similarity
// order would otherwise put every copy next to its original.
//
// Two documents are exact duplicates when their normalized texts are equal (formats/word_runs.h).
// They are near-duplicates when an edge of the neighbor graph joins them with a cosine of at least
// min_cosine, or another source names them as candidates (minhash.h), and the Jaccard similarity of
// the sets of character 5-grams of their normalized texts is at least min_jaccard.
//
// Algorithm: hash every normalized text and sort the hashes, which finds the exact duplicates; then
// visit the documents in ascending order and compare each with its earlier candidates in the graph.
// O(n log n + c) for n documents and c candidate pairs, each of which costs the length of two
// texts.
#ifndef BRAID_PIPELINE_ORDERING_DEDUPLICATE_H_
#define BRAID_PIPELINE_ORDERING_DEDUPLICATE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/word_runs.h"
#include "pipeline/ordering/similarity_order.h"

namespace braid {

// A pair of documents to compare.
struct DuplicateCandidate {
  uint32_t later = 0;
  uint32_t earlier = 0;
  float cosine = 0;
};

// Returns the candidates, ascending by (later, earlier), each once, among the documents whose
// first[i] is their own number: the first of documents with equal normalized texts.
using CandidateSource =
    std::function<absl::StatusOr<std::vector<DuplicateCandidate>>(std::span<const uint32_t> first)>;

struct DeduplicateOptions {
  double min_cosine = 0.9;
  double min_jaccard = 0.8;
  // The source of candidates; null for the neighbor graph.
  CandidateSource candidates = nullptr;
};

struct DuplicatePair {
  uint32_t removed = 0;
  uint32_t kept = 0;  // the document that is kept instead
  // True if the normalized text equals that of an earlier document: of `kept`, or of a
  // near-duplicate of `kept` that was removed too.
  bool exact = false;
  // Cosine of the edge that joins the pair; 1 without one, where the normalized texts are equal.
  double cosine = 0;
  // Jaccard similarity of the 5-gram sets; 1 when the normalized texts are equal.
  double jaccard = 0;
};

struct Duplicates {
  std::vector<uint32_t> removed;  // ascending
  int64_t num_exact = 0;
  int64_t num_near = 0;
  int64_t num_compared = 0;          // pairs whose 5-gram sets were compared
  std::vector<DuplicatePair> pairs;  // one per removed document, in the same order
};

// Returns the text of a document by its number. It is called about once per document and again for
// near-duplicate candidates, so the corpus need not be in memory. A lambda that returns std::string
// converts to it.
using TextAccess = std::function<absl::StatusOr<std::string>(uint32_t document)>;

// Finds the documents to remove. A document is removed when an earlier one has the same normalized
// text, or when it is a near-duplicate of an earlier document that is kept.
//
// Requires: lists of num_documents rows.
// Guarantees: the first document of every group is kept; of a chain of near-duplicates (a~b, b~c,
// not a~c), a and c are kept. Errors: those of `text`.
absl::StatusOr<Duplicates> FindDuplicates(const NeighborLists& lists, int64_t num_documents,
                                          const TextAccess& text,
                                          const DeduplicateOptions& options);

// Returns the distinct 5-grams of characters (code points) of a UTF-8 text as sorted 64-bit hashes.
// A text of 1 to 4 characters is a single gram.
std::vector<uint64_t> CharacterNgrams(std::string_view text);

// Stores the same grams in `grams` in text order and with repeats, in a fifth of the time.
void ListCharacterNgrams(std::string_view text, std::vector<uint64_t>* grams);

// Returns the Jaccard similarity |a and b| / |a or b| of two sorted sets; 1 when both are empty.
double Jaccard(std::span<const uint64_t> a, std::span<const uint64_t> b);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_DEDUPLICATE_H_
