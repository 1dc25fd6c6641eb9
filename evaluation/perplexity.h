// Evaluates models on held-out text: perplexity and bits per byte, by domain. See
// docs/evaluation.md.
#ifndef BRAID_EVALUATION_PERPLEXITY_H_
#define BRAID_EVALUATION_PERPLEXITY_H_

#include <functional>

#include "absl/status/status.h"
#include "braid/v1/evaluation.pb.h"
#include "evaluation/document_reader.h"

namespace braid {

// Handles the request: `models` are run or checkpoint directories, `paths` are read by `reader`.
// One model is in memory at a time (for fixed weights also the dense model merged from it), and the
// text as tokens (8 bytes each) throughout. The last event carries the result.
//
// InvalidArgument for a field out of range, a dataset together with files, no dataset for a model
// outside a run, a limit of windows for models that cut files differently, or fixed weights without
// the routing or the domains that they are derived from. FailedPrecondition when dataset and model
// have different tokenizers, or when the dataset has no held-out split.
absl::Status Evaluate(const v1::EvaluateRequest& request, const DocumentReader& reader,
                      const std::function<void(const v1::EvaluateEvent&)>& emit);

}  // namespace braid

#endif  // BRAID_EVALUATION_PERPLEXITY_H_
