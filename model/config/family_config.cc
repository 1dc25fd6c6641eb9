#include "model/config/family_config.h"

#include "base/status_macros.h"
#include "model/config/config_checks.h"
#include "model/config/parameter_layout.h"

namespace braid {
namespace {

// The stated default of rope_theta.
constexpr double kDefaultTheta = 10000;

absl::Status CheckGpt2Attention(const v1::ModelConfig& config) {
  const int32_t heads = config.num_heads();
  if (config.has_rope_theta() ||
      config.rope_scaling().type() != v1::ROPE_SCALING_TYPE_UNSPECIFIED) {
    return Invalid(config.has_rope_theta() ? "rope_theta" : "rope_scaling",
                   "got a value, but the positions of GPT2 are learned; leave it unset");
  }
  if (config.qk_norm()) {
    return Invalid("qk_norm",
                   "got true, but GPT2 does not normalize queries and keys; leave it "
                   "unset");
  }
  if (config.has_num_key_value_heads() && config.num_key_value_heads() != heads) {
    return Invalid("num_key_value_heads", "got ", config.num_key_value_heads(), ", expected ",
                   heads, ": the query heads of GPT2 share no keys; leave it unset");
  }
  if (config.has_head_dim() && int64_t{config.head_dim()} * heads != config.d_model()) {
    return Invalid("head_dim", "got ", config.head_dim(), ", expected d_model / num_heads of ",
                   config.d_model(), " / ", heads, " for GPT2; leave it unset");
  }
  return absl::OkStatus();
}

}  // namespace

bool IsGpt2(const v1::ModelConfig& config) { return config.family() == v1::GPT2; }

int64_t NumFfnMatrices(const v1::ModelConfig& config) { return IsGpt2(config) ? 2 : 3; }

std::vector<std::string> HiddenUnitNames(const v1::ModelConfig& config) {
  if (IsGpt2(config)) return {"up_proj.weight", "up_proj.bias", "down_proj.weight_t"};
  return {"gate_proj.weight", "up_proj.weight", "down_proj.weight_t"};
}

std::string KeysName(const v1::ModelConfig& config, int layer) {
  return LayerPrefix(layer) + "mlp." + HiddenUnitNames(config).front();
}

void FillFamilyDefaults(v1::ModelConfig* config) {
  if (config->family() == v1::LLAMA) config->clear_family();
  if (!IsGpt2(*config)) return;
  if (config->rope_theta() == kDefaultTheta) config->clear_rope_theta();
  // Other widths are refused later; four times them might overflow.
  if (!config->has_d_ff() && config->d_model() > 0 && config->d_model() <= kMaxExtent) {
    config->set_d_ff(4 * config->d_model());
  }
  config->set_tie_embeddings(true);
  config->set_qkv_bias(!config->qk_norm());  // CheckFamily refuses the latter
}

absl::Status CheckFamily(const v1::ModelConfig& config) {
  RETURN_IF_ERROR(CheckRange("family", config.family(), 0, v1::Family_MAX));
  if (!IsGpt2(config)) return CheckPositive("rope_theta", config.rope_theta());
  RETURN_IF_ERROR(CheckGpt2Attention(config));
  const v1::Router router = config.routing().router();
  if (router == v1::DENSE || router == v1::TOKEN_CHOICE) return absl::OkStatus();
  return Invalid("routing.router", "got ", v1::Router_Name(router),
                 ", expected DENSE or TOKEN_CHOICE: the other routers need the SwiGLU FFN of the "
                 "family LLAMA");
}

}  // namespace braid
