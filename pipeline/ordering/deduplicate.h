// Exact and near-duplicate removal, before ordering: the similarity order would
// otherwise put every copy next to its original.
//
// Two documents are exact duplicates when their normalised texts are equal, and
// near-duplicates when the neighbour graph joins them with at least min_cosine
// and the character 5-gram sets of their normalised texts have at least
// min_jaccard in common.
#ifndef BRAID_PIPELINE_ORDERING_DEDUPLICATE_H_
#define BRAID_PIPELINE_ORDERING_DEDUPLICATE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/ordering/similarity_order.h"

namespace braid {

struct DeduplicateOptions {
  double min_cosine = 0.9;
  double min_jaccard = 0.8;
};

struct DuplicatePair {
  uint32_t removed = 0;
  uint32_t kept = 0;   // the document that stays in its place
  bool exact = false;  // their normalised texts are equal
  // 1 for exact duplicates. Of a copy of a removed near-duplicate, those of that
  // near-duplicate: its text is the same but for case, punctuation and space.
  double cosine = 0;
  double jaccard = 0;
};

struct Duplicates {
  std::vector<uint32_t> removed;  // ascending
  int64_t num_exact = 0;
  int64_t num_near = 0;
  int64_t num_compared = 0;          // pairs whose 5-gram sets were compared
  std::vector<DuplicatePair> pairs;  // one a removed document, in the same order
};

// Text of a document, by number. Called about once a document, and again for
// near-duplicate candidates; so the corpus need not be in memory. A lambda that
// returns std::string fits too.
using TextAccess = std::function<absl::StatusOr<std::string>(uint32_t document)>;

// Visits documents in id order. A document goes when an earlier one has the same
// normalised text, or when it is a near-duplicate of an earlier document that
// stays. Thus the first of a group always stays, and chains of near-duplicates
// (a~b, b~c, not a~c) keep a and c.
//
// Errors: those of `text`.
absl::StatusOr<Duplicates> FindDuplicates(const NeighborLists& lists, int64_t num_documents,
                                          const TextAccess& text,
                                          const DeduplicateOptions& options);

// Lower-case ASCII, ASCII punctuation dropped, runs of white space made one
// space, none at the ends. A text of nothing but those is returned as it is, so
// that "----" and "####" stay apart.
std::string NormalizeText(std::string_view text);

// Distinct character (code point) 5-grams of a UTF-8 text, as sorted 64-bit
// hashes. A text of 1 to 4 characters is one gram.
std::vector<uint64_t> CharacterNgrams(std::string_view text);

// The same as they come, repeats included, which takes a fifth of the time.
void ListCharacterNgrams(std::string_view text, std::vector<uint64_t>* grams);

// |a and b| / |a or b| of two sorted sets; 1 when both are empty.
double Jaccard(std::span<const uint64_t> a, std::span<const uint64_t> b);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_DEDUPLICATE_H_
