// Checks of the batches that a model is given.
//
// Shapes: B sequences, L tokens each; arrays are row-major [B, L].
#ifndef BRAID_MODEL_BATCH_CHECKS_H_
#define BRAID_MODEL_BATCH_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Returns InvalidArgument unless `inputs` are `batch_size` sequences of equal lengths, at most
// sequence_length, of tokens of the vocabulary.
absl::Status CheckSequences(const v1::ModelConfig& config, std::span<const int32_t> inputs,
                            int64_t batch_size);

// Same as CheckSequences, and checks that there is one target per input, a number of the head or
// -1, and one number per input for a model with label_head.regression and none for others.
absl::Status CheckBatch(const v1::ModelConfig& config, std::span<const int32_t> inputs,
                        std::span<const int32_t> targets, std::span<const float> numbers,
                        int64_t batch_size);

// Returns InvalidArgument unless `instances` is empty or has one element per sequence.
absl::Status CheckInstances(std::span<const int64_t> instances, int64_t batch_size);

// Returns InvalidArgument unless `first_visible` is empty, or is as BatchIdentity requires: one
// position per token, not after it, which never falls within a sequence.
absl::Status CheckVisible(std::span<const int32_t> first_visible, size_t num_tokens,
                          int64_t batch_size);

}  // namespace braid

#endif  // BRAID_MODEL_BATCH_CHECKS_H_
