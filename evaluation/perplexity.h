// Perplexity and bits per byte of models on held-out text, by domain; docs/evaluation.md.
#ifndef BRAID_EVALUATION_PERPLEXITY_H_
#define BRAID_EVALUATION_PERPLEXITY_H_

#include <functional>

#include "absl/status/status.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/document_reader.h"

namespace braid {

// Answers the request: `models` are run or checkpoint directories, `paths` are read by
// `reader`. One model is in memory at a time (for fixed weights beside the dense one it is
// merged into), the text as tokens (8 bytes each) all the while. The last event carries the
// result.
//
// InvalidArgument for a field out of range, a dataset beside files, no dataset for a model
// outside a run, a limit of windows for models that cut files differently, or fixed weights
// without the routing or the domains that they come from.
// FailedPrecondition when the dataset was made with another tokenizer than a model, or
// nothing was held out.
absl::Status Evaluate(const v1::EvaluateRequest& request, const DocumentReader& reader,
                      const std::function<void(const v1::EvaluateEvent&)>& emit);

}  // namespace braid

#endif  // BRAID_EVALUATION_PERPLEXITY_H_
