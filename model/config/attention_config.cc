#include "model/config/attention_config.h"

#include <cstdint>

#include "base/status_macros.h"
#include "model/config/config_checks.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

absl::Status CheckHeadWidth(const v1::ModelConfig& config) {
  if (config.has_head_dim()) {
    RETURN_IF_ERROR(CheckRange("head_dim", config.head_dim(), 2, kMaxExtent / config.num_heads()));
    if (config.head_dim() % 2 == 0) return absl::OkStatus();
    return Invalid("head_dim", "got ", config.head_dim(),
                   ", expected an even width (RoPE rotates pairs)");
  }
  if (config.d_model() % config.num_heads() != 0) {
    return Invalid("num_heads", "got ", config.num_heads(), ", expected a divisor of d_model ",
                   config.d_model(), ", or head_dim set");
  }
  if (config.d_model() / config.num_heads() % 2 != 0) {
    return Invalid("num_heads", "heads of width ", config.d_model() / config.num_heads(),
                   " got, expected an even width (RoPE rotates pairs)");
  }
  return absl::OkStatus();
}

}  // namespace

AttentionHeads HeadsOf(const v1::ModelConfig& resolved) {
  const int32_t heads = resolved.num_heads();
  return {
      .query = heads,
      .key_value = resolved.has_num_key_value_heads() ? resolved.num_key_value_heads() : heads,
      .width = resolved.has_head_dim() ? resolved.head_dim() : resolved.d_model() / heads,
  };
}

void FillAttentionDefaults(v1::ModelConfig* config) {
  if (!config->has_rope_scaling()) return;
  v1::RopeScaling* const scaling = config->mutable_rope_scaling();
  // CheckRopeScaling refuses what the type does not use.
  if (scaling->type() == v1::LLAMA3_ROPE) {
    FillStatedDefaults(scaling);
  } else if (scaling->type() == v1::LINEAR_ROPE && !scaling->has_factor()) {
    v1::RopeScaling defaults;
    FillStatedDefaults(&defaults);
    scaling->set_factor(defaults.factor());
  }
}

absl::Status CheckHeads(const v1::ModelConfig& config) {
  const int32_t heads = config.num_heads();
  RETURN_IF_ERROR(
      CheckRange("num_heads", heads, 1, config.has_head_dim() ? kMaxExtent / 2 : config.d_model()));
  RETURN_IF_ERROR(CheckHeadWidth(config));
  if (config.qkv_bias() && config.qk_norm()) {
    return Invalid("qkv_bias",
                   "got true with qk_norm, expected at most one of them; Qwen2 has the "
                   "one, Qwen3 the other");
  }
  if (!config.has_num_key_value_heads()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRange("num_key_value_heads", config.num_key_value_heads(), 1, heads));
  if (heads % config.num_key_value_heads() == 0) return absl::OkStatus();
  return Invalid("num_key_value_heads", "got ", config.num_key_value_heads(),
                 ", expected a divisor of num_heads ", heads);
}

absl::Status CheckRopeScaling(const v1::RopeScaling& scaling) {
  RETURN_IF_ERROR(CheckRange("rope_scaling.type", scaling.type(), 0, v1::RopeScalingType_MAX));
  const bool llama3 = scaling.type() == v1::LLAMA3_ROPE;
  if (!llama3 && (scaling.has_low_frequency_factor() || scaling.has_high_frequency_factor() ||
                  scaling.has_original_length())) {
    return Invalid(
        "rope_scaling.type",
        "got low_frequency_factor, high_frequency_factor or original_length with another "
        "type, expected LLAMA3_ROPE, which alone uses them");
  }
  if (scaling.type() == v1::ROPE_SCALING_TYPE_UNSPECIFIED) {
    if (!scaling.has_factor()) return absl::OkStatus();
    return Invalid("rope_scaling.type",
                   "got a factor without a type, expected LINEAR_ROPE or LLAMA3_ROPE");
  }
  RETURN_IF_ERROR(CheckPositive("rope_scaling.factor", scaling.factor()));
  if (!llama3) return absl::OkStatus();
  const double low = scaling.low_frequency_factor(), high = scaling.high_frequency_factor();
  RETURN_IF_ERROR(CheckPositive("rope_scaling.low_frequency_factor", low));
  RETURN_IF_ERROR(CheckPositive("rope_scaling.high_frequency_factor", high));
  RETURN_IF_ERROR(
      CheckRange("rope_scaling.original_length", scaling.original_length(), 1, kMaxExtent));
  if (low < high) return absl::OkStatus();
  return Invalid("rope_scaling.high_frequency_factor", "got ", high,
                 ", expected more than low_frequency_factor ", low);
}

void DropAttentionDefaults(v1::ModelConfig* config) {
  const int32_t heads = config->num_heads(), width = config->d_model();
  if (config->num_key_value_heads() == heads) config->clear_num_key_value_heads();
  if (width % heads == 0 && config->head_dim() == width / heads) config->clear_head_dim();
  if (config->rope_scaling().type() == v1::ROPE_SCALING_TYPE_UNSPECIFIED) {
    config->clear_rope_scaling();
  }
  if (config->attention_mask() == v1::OPEN) config->clear_attention_mask();
}

}  // namespace braid
