// Comparison of a generated answer with the accepted ones.
#ifndef BRAID_EVALUATION_TASKS_ANSWER_TEXT_H_
#define BRAID_EVALUATION_TASKS_ANSWER_TEXT_H_

#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "braid/v1/task.pb.h"

namespace braid {

// Returns the normalized answer. SQUAD (Rajpurkar et al. 2016, as used by DPR and papers on
// open-domain questions): lower case, ASCII punctuation removed, the words a, an and the replaced
// by spaces, words separated by single spaces. A word ends at any character other than a letter,
// digit or '_' (the script's \b). TRIVIAQA (Joshi et al. 2017): ASCII punctuation including '_',
// and the quotation marks ‘ ’ ´ ` become spaces, then the same. Letters, digits, spaces and lower
// case are those of Unicode. Bytes that are not UTF-8 become U+FFFD. VERBATIM: white space around
// the text removed, which written answers do not have either.
std::string NormalizeAnswer(absl::string_view text, v1::AnswerNormalization normalization);

// Returns a text in the lower case of Unicode.
std::string LowerCase(absl::string_view text);

// Returns the parts of a text between white space of Unicode.
std::vector<std::string> WordsBetweenSpaces(absl::string_view text);

// Returns whether the answer equals a reference, both normalized.
bool IsExactMatch(absl::string_view answer, std::span<const std::string> references,
                  v1::AnswerNormalization normalization);

// Returns the best F1 over the references, with words as bags: 2 common / (answer words + reference
// words). 1 when both have no words.
double AnswerF1(absl::string_view answer, std::span<const std::string> references,
                v1::AnswerNormalization normalization);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_ANSWER_TEXT_H_
