// Packs some examples of a batch into new sequences, so that a layer that only these examples chose
// does no work for the others. Tensor code: private to model/.
#ifndef BRAID_MODEL_REPACKED_EXAMPLES_H_
#define BRAID_MODEL_REPACKED_EXAMPLES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace braid {

// Sequences [B', L'], each with whole examples one after the other, and padding.
struct RepackedExamples {
  at::Tensor source;  // [B' L'] int64: a position of the batch; 0 in padding
  at::Tensor places;  // [n] int64: positions of the new sequences that are not padding, ascending
  at::Tensor positions;  // [n] int64: the positions of the batch that they hold
  at::Tensor visible;    // [B', L'] int32: the first position of the example of each position;
                         // undefined if attention sees whole sequences
};

// Returns the examples in which a position is true in `wanted` [B * L] bool. visible [B, L] int32
// is the first position of the example of each position, which is all that attention sees.
// Returns nullopt where that would not make the batch smaller.
std::optional<RepackedExamples> RepackExamples(const at::Tensor& visible, const at::Tensor& wanted);

// Returns the sequences `sequences` [B'] int64 of a batch [B, L] as they are. `visible` may be
// undefined.
RepackedExamples WholeSequences(const at::Tensor& sequences, const at::Tensor& visible,
                                int64_t length);

}  // namespace braid

#endif  // BRAID_MODEL_REPACKED_EXAMPLES_H_
