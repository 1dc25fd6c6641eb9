// The attention mask DOCUMENT (intra-document masking, arXiv 2402.13991): a token sees the earlier
// tokens of its own document. A document ends with the token ModelConfig.document_end. Tensor code:
// private to model/.
#ifndef BRAID_MODEL_DOCUMENT_MASK_H_
#define BRAID_MODEL_DOCUMENT_MASK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "braid/v1/model.pb.h"

namespace braid {

// Returns the first position of each token's document, [B, L] int32, for tokens [B, L] int64.
at::Tensor DocumentStarts(const at::Tensor& tokens, int32_t document_end);

// Returns the first position that each token sees, [B, L] int32, for tokens [B, L] int64. Undefined
// for the mask OPEN.
at::Tensor FirstVisible(const v1::ModelConfig& config, const at::Tensor& tokens);

// What the next tokens of a sequence see of it.
struct VisibleTokens {
  int64_t begin = 0;  // the first position that any of them sees
  // [number of next tokens] int32, relative to `begin`; undefined when all see that position.
  at::Tensor first;
};

// Returns what `next`, which follow the tokens `past`, see.
VisibleTokens VisibleFrom(const v1::ModelConfig& config, std::span<const int32_t> past,
                          std::span<const int32_t> next);

}  // namespace braid

#endif  // BRAID_MODEL_DOCUMENT_MASK_H_
