// The Porter stemmer (Porter 1980, "An algorithm for suffix stripping").
#ifndef BRAID_EVALUATION_TASKS_PORTER_STEM_H_
#define BRAID_EVALUATION_TASKS_PORTER_STEM_H_

#include <string>

namespace braid {

// Returns the stem of a word in lower case. Words with other characters than a to z, and words of
// at most two letters, are their own stems.
std::string PorterStem(std::string word);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_PORTER_STEM_H_
