// Samples text from a trained model.
#ifndef BRAID_INFERENCE_GENERATION_H_
#define BRAID_INFERENCE_GENERATION_H_

#include <functional>

#include "absl/status/status.h"
#include "braid/v1/generation.pb.h"

namespace braid {

// Continues `request.prompt` as the start of a document until the model ends it (EOS), max_tokens
// are sampled or the context is full. `request.model` is a run or checkpoint directory. Events
// carry whole characters; the first one names the source of the weights, the last one has `done`
// set. The same request gives the same text. InvalidArgument when the prompt does not fit or a
// setting is out of range; also the errors of FindModel.
absl::Status Generate(const v1::GenerateRequest& request,
                      const std::function<void(const v1::GenerateEvent&)>& emit);

}  // namespace braid

#endif  // BRAID_INFERENCE_GENERATION_H_
