// Perplexity evaluations as tables for a terminal: all measures of one model, or one measure of
// several models side by side.
#ifndef BRAID_CLIENT_TERMINAL_EVALUATION_TABLE_H_
#define BRAID_CLIENT_TERMINAL_EVALUATION_TABLE_H_

#include <ostream>

#include "braid/v1/evaluation.pb.h"

namespace braid {

// The measure by domain in the table of several models.
enum class EvaluationMeasure { kPerplexity, kBitsPerByte, kWithFirstSegment };

// Prints one row per domain and a total. Columns beyond `width` continue in further blocks.
// Differences from the first model whose confidence interval excludes 0 are marked with "*".
void PrintEvaluation(const v1::EvaluationResult& result, EvaluationMeasure measure, int width,
                     std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_EVALUATION_TABLE_H_
