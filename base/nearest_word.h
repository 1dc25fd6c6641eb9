// "Did you mean": the known word closest to a mistyped one.
#ifndef BRAID_BASE_NEAREST_WORD_H_
#define BRAID_BASE_NEAREST_WORD_H_

#include <string>
#include <string_view>
#include <vector>

namespace braid {

// The candidate with the smallest edit distance (Levenshtein) to `word`, the
// first of equals, or "" when more than half of the word would have to change.
std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace braid

#endif  // BRAID_BASE_NEAREST_WORD_H_
