// The attention of a model: heads, key-value heads and the scaling of RoPE. Private to
// model/config/, but for HeadsOf.
#ifndef BRAID_MODEL_CONFIG_ATTENTION_CONFIG_H_
#define BRAID_MODEL_CONFIG_ATTENTION_CONFIG_H_

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"
#include "model/kernels/attention_heads.h"

namespace braid {

// Returns the attention heads of a resolved configuration.
AttentionHeads HeadsOf(const v1::ModelConfig& resolved);

// Fills the settings of the scaling of RoPE if there is one, and clears those that its type does
// not have.
void FillAttentionDefaults(v1::ModelConfig* config);

// Returns InvalidArgument for heads that do not divide the width, or whose widths RoPE cannot
// rotate.
absl::Status CheckHeads(const v1::ModelConfig& config);
absl::Status CheckRopeScaling(const v1::RopeScaling& scaling);

// Clears the fields that equal what their absence means.
void DropAttentionDefaults(v1::ModelConfig* config);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_ATTENTION_CONFIG_H_
