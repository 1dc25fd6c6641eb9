// Suggestions for mistyped words ("did you mean").
#ifndef BRAID_BASE_NEAREST_WORD_H_
#define BRAID_BASE_NEAREST_WORD_H_

#include <string>
#include <string_view>
#include <vector>

namespace braid {

// Returns the candidate with the smallest Levenshtein distance to `word`, the first of equals, or
// "" if more than half of the word would have to change.
std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates);

// Returns "; did you mean \"CANDIDATE\"?" for the end of a message, or "" without a near candidate.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

// Does the same, but returns "; known: " with the first candidates, 160 bytes at most, if none is
// near.
std::string DidYouMeanOrKnown(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace braid

#endif  // BRAID_BASE_NEAREST_WORD_H_
