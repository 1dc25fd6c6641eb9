// When a written answer counts as one of the accepted ones.
#ifndef BRAID_EVALUATION_TASKS_ANSWER_TEXT_H_
#define BRAID_EVALUATION_TASKS_ANSWER_TEXT_H_

#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "braid/v1/task.pb.h"

namespace braid {

// SQUAD (Rajpurkar et al. 2016, as DPR and papers on open questions use it): lower case, ASCII
// punctuation removed, the words a, an and the replaced by spaces, words separated by single
// spaces. A word ends at any character that is no letter, digit or '_' (the script's \b). TRIVIAQA
// (Joshi et al. 2017): ASCII punctuation, '_' with it, and the quotation marks ‘ ’ ´ ` become
// spaces, then the same. Letters, digits, spaces and lower case are those of Unicode. Text that is
// not UTF-8 has U+FFFD for what is not.
std::string NormalizeAnswer(absl::string_view text, v1::AnswerNormalization normalization);

// Whether the answer equals a reference, both normalised.
bool IsExactMatch(absl::string_view answer, std::span<const std::string> references,
                  v1::AnswerNormalization normalization);

// Of the words, as bags: 2 common / (words + reference's words); the best reference's.
// 1 when both have no words.
double AnswerF1(absl::string_view answer, std::span<const std::string> references,
                v1::AnswerNormalization normalization);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_ANSWER_TEXT_H_
