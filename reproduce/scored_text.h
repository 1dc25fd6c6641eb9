// The size of the held-out text that models are scored on, with which losses become bits per byte.
#ifndef BRAID_REPRODUCE_SCORED_TEXT_H_
#define BRAID_REPRODUCE_SCORED_TEXT_H_

#include <cstdint>
#include <map>
#include <vector>

#include "braid/v1/evaluation.pb.h"

namespace braid {

// Tokens that are predicted, and the UTF-8 bytes of their text. The end of a document is a token
// without bytes.
struct ScoredText {
  int64_t tokens = 0;
  int64_t bytes = 0;
};

// Sizes of the scored text by the number of first positions of each window that are left out. All
// models of an experiment are scored on the same text.
using ScoredTexts = std::map<int32_t, ScoredText>;

// Adds the text of each evaluation.
void AddScoredTexts(const v1::EvaluationResult& evaluations, ScoredTexts* texts);

// Returns a loss in bits per byte; NaN if the size of the text is not known.
double BitsPerByte(double nats_per_token, const ScoredTexts& texts, int32_t first_positions);

}  // namespace braid

#endif  // BRAID_REPRODUCE_SCORED_TEXT_H_
