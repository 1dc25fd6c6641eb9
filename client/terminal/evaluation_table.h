// How perplexities look on a terminal: one model's figures side by side, or several models
// in one table, dense beside experts.
#ifndef BRAID_CLIENT_TERMINAL_EVALUATION_TABLE_H_
#define BRAID_CLIENT_TERMINAL_EVALUATION_TABLE_H_

#include <ostream>

#include "braid/v1/analysis.pb.h"

namespace braid {

// What the table of several models shows of each domain.
enum class EvaluationMeasure { kPerplexity, kBitsPerByte, kWithFirstSegment };

// Rows are domains, then all of them. Columns that do not fit into `width` go on in a block
// below. Differences from the first model whose interval leaves out 0 are marked.
void PrintEvaluation(const v1::EvaluationResult& result, EvaluationMeasure measure, int width,
                     std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_EVALUATION_TABLE_H_
