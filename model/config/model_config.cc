#include "model/config/model_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/config/attention_config.h"
#include "model/config/config_checks.h"
#include "model/config/document_config.h"
#include "model/config/dropout_config.h"
#include "model/config/family_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_flops.h"
#include "model/config/model_presets.h"
#include "model/config/parameter_layout.h"
#include "model/config/token_routing_config.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

constexpr int kMaxLayers = 4096;
constexpr int kMaxExperts = 4096;
constexpr int kBaseWidth = 64;  // the default of ModelConfig.base_width
// More than any machine can hold, and few enough that sums over parameters in bytes fit in 64 bits.
constexpr int64_t kMaxParameters = int64_t{1} << 48;
// Below it a row of zeros has no finite gradient in single precision, where 1 / norm_epsilon and
// its powers overflow.
constexpr double kMinNormEpsilon = 1e-30;

int DefaultFfnWidth(int64_t d_model) {
  return static_cast<int>((8 * d_model / 3 + 255) / 256 * 256);
}

void FillRoutingDefaults(const v1::ModelConfig& config, v1::RoutingConfig* routing) {
  if (routing->router() == v1::TOKEN_CHOICE) FillTokenDefaults(config, routing);
  FillStatedDefaults(routing);
  if (routing->router() == v1::ROUTER_UNSPECIFIED) {
    routing->set_router(routing->num_experts() > 1 ? v1::CAUSAL_SEGMENT : v1::DENSE);
  }
  if (!routing->has_segment_length()) {
    routing->set_segment_length(std::min(256, config.sequence_length()));
  }
}

// Drops a list that names every layer: it means the same as an empty list, and equal models should
// compare equal.
void DropCompleteLayerList(int num_layers, v1::RoutingConfig* routing) {
  if (routing->moe_layers_size() == num_layers) routing->clear_moe_layers();
}

// Clears the fields that equal what their absence means.
void DropDocumentDefaults(v1::ModelConfig* config) {
  if (config->start_token() == v1::START_WITH_EOS) config->clear_start_token();
  v1::RoutingConfig* const routing = config->mutable_routing();
  if (!CutsAtDocuments(*routing)) routing->clear_segment_boundaries();
}

void FillDefaults(v1::ModelConfig* config) {
  FillStatedDefaults(config);
  FillFamilyDefaults(config);
  if (!config->has_d_ff()) config->set_d_ff(DefaultFfnWidth(config->d_model()));
  if (!config->has_vocab_size()) config->set_vocab_size(32000);
  if (!config->has_sequence_length()) config->set_sequence_length(4096);
  if (config->initialization() == v1::WIDTH_SCALED && !config->has_base_width()) {
    config->set_base_width(kBaseWidth);
  }
  FillAttentionDefaults(config);
  FillRoutingDefaults(*config, config->mutable_routing());
  FillDropoutDefaults(config);
}

absl::Status CheckInitialization(const v1::ModelConfig& config) {
  RETURN_IF_ERROR(CheckRange("initialization", config.initialization(), 1, v1::Initialization_MAX));
  if (config.initialization() != v1::WIDTH_SCALED) {
    if (!config.has_base_width()) return absl::OkStatus();
    return Invalid("base_width", "got ", config.base_width(), " with initialization ",
                   v1::Initialization_Name(config.initialization()),
                   ", expected WIDTH_SCALED; leave it unset");
  }
  RETURN_IF_ERROR(CheckRange("base_width", config.base_width(), 1, kMaxExtent));
  if (IsGpt2(config)) {
    return Invalid("initialization",
                   "got WIDTH_SCALED with family GPT2, expected FAN_IN or NORMAL_002, since its "
                   "head is the embedding, which needs another learning rate");
  }
  if (!config.tie_embeddings()) return absl::OkStatus();
  return Invalid("tie_embeddings",
                 "got true with initialization WIDTH_SCALED, expected false, since the embedding "
                 "and the head need different learning rates");
}

absl::Status CheckNormEpsilon(double epsilon) {
  RETURN_IF_ERROR(CheckPositive("norm_epsilon", epsilon));
  if (epsilon >= kMinNormEpsilon) return absl::OkStatus();
  return Invalid("norm_epsilon", "got ", epsilon, ", expected at least ", kMinNormEpsilon,
                 ", since norms are computed in single precision");
}

absl::Status CheckShape(const v1::ModelConfig& config) {
  RETURN_IF_ERROR(CheckRange("num_layers", config.num_layers(), 1, kMaxLayers));
  RETURN_IF_ERROR(CheckRange("d_model", config.d_model(), 2, kMaxExtent));
  RETURN_IF_ERROR(CheckRange("d_ff", config.d_ff(), 1, kMaxExtent));
  RETURN_IF_ERROR(CheckRange("vocab_size", config.vocab_size(), 2, kMaxExtent));
  RETURN_IF_ERROR(CheckRange("sequence_length", config.sequence_length(), 1, kMaxExtent));
  RETURN_IF_ERROR(CheckNormEpsilon(config.norm_epsilon()));
  RETURN_IF_ERROR(CheckInitialization(config));
  RETURN_IF_ERROR(CheckRopeScaling(config.rope_scaling()));
  RETURN_IF_ERROR(CheckRange("start_token", config.start_token(), 0, v1::StartToken_MAX));
  return CheckHeads(config);
}

absl::Status CheckRouter(const v1::RoutingConfig& routing) {
  RETURN_IF_ERROR(CheckRange("routing.num_experts", routing.num_experts(), 1, kMaxExperts));
  RETURN_IF_ERROR(CheckRange("routing.router", routing.router(), 1, v1::Router_MAX));
  if ((routing.router() == v1::DENSE) != (routing.num_experts() == 1)) {
    return Invalid("routing.router", v1::Router_Name(routing.router()), " does not go with ",
                   routing.num_experts(), " expert(s)",
                   "; DENSE needs num_experts 1, every other router 2 or more");
  }
  RETURN_IF_ERROR(
      CheckRange("routing.first_segment", routing.first_segment(), 1, v1::FirstSegment_MAX));
  RETURN_IF_ERROR(
      CheckRange("routing.router_input", routing.router_input(), 1, v1::RouterInput_MAX));
  return CheckPositive("routing.router_init_std", routing.router_init_std());
}

absl::Status CheckMoeLayers(const v1::ModelConfig& config) {
  const auto& layers = config.routing().moe_layers();
  if (!layers.empty() && config.routing().router() == v1::DENSE) {
    return Invalid("routing.moe_layers", "got ", layers.size(),
                   " layer(s), but the model is DENSE; set routing.num_experts to 2 or more");
  }
  for (int i = 0; i < layers.size(); ++i) {
    RETURN_IF_ERROR(CheckRange("routing.moe_layers", layers[i], 0, config.num_layers() - 1));
    if (i > 0 && layers[i] <= layers[i - 1]) {
      return Invalid("routing.moe_layers", "got ", layers[i], " after ", layers[i - 1],
                     ", expected ascending layers, each once");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSegments(const v1::ModelConfig& config) {
  const int segment = config.routing().segment_length();
  RETURN_IF_ERROR(CheckRange("routing.segment_length", segment, 1, config.sequence_length()));
  if (config.sequence_length() % segment == 0) return absl::OkStatus();
  int divisor = segment;
  while (config.sequence_length() % divisor != 0) --divisor;
  return Invalid("routing.segment_length", "got ", segment, ", expected a divisor of ",
                 "sequence_length ", config.sequence_length(), ", such as ", divisor);
}

// Requires that everything else about the configuration has been checked.
absl::Status CheckNumParameters(const v1::ModelConfig& config) {
  const ParameterSpec last = ParameterLayout(config).back();
  if (last.offset + last.size <= kMaxParameters) return absl::OkStatus();
  return Invalid("num_layers", "got ", config.num_layers(), " with d_model ", config.d_model(),
                 ", d_ff ", config.d_ff(), ", vocab_size ", config.vocab_size(),
                 " and routing.num_experts ", config.routing().num_experts(),
                 ", which make more parameters than the limit of ", kMaxParameters,
                 "; reduce one of them");
}

// Elements of the FFN matrices: those of the dense layers, and those of all experts.
struct FfnSizes {
  int64_t dense = 0;
  int64_t experts = 0;
};

FfnSizes SumFfnSizes(const std::vector<ParameterSpec>& layout) {
  FfnSizes sizes;
  for (const ParameterSpec& spec : layout) {
    if (spec.group != "ffn") continue;
    (spec.name.find(".experts.") == spec.name.npos ? sizes.dense : sizes.experts) += spec.size;
  }
  return sizes;
}

}  // namespace

bool UsesExperts(const v1::ModelConfig& resolved) {
  return resolved.routing().router() != v1::DENSE;
}

bool MergesExperts(const v1::RoutingConfig& resolved) {
  return resolved.router() == v1::CAUSAL_SEGMENT || resolved.router() == v1::PREFIX;
}

bool RoutesTokens(const v1::RoutingConfig& resolved) {
  return resolved.router() == v1::EXPERT_CHOICE_TOKEN || resolved.router() == v1::TOKEN_CHOICE;
}

bool RoutesOnOtherTokens(const v1::RoutingConfig& resolved) {
  return resolved.router() != v1::DENSE && resolved.router() != v1::TOKEN_CHOICE;
}

bool HasRouterMatrix(const v1::RoutingConfig& resolved) {
  if (resolved.router() != v1::TOKEN_CHOICE) return resolved.router() != v1::DENSE;
  const v1::TokenRouting::Gate gate = resolved.token().gate();
  return gate == v1::TokenRouting::LINEAR || gate == v1::TokenRouting::FROZEN ||
         gate == v1::TokenRouting::RELU || gate == v1::TokenRouting::COSINE;
}

bool ProjectsRouterInput(const v1::RoutingConfig& resolved) {
  return resolved.router() == v1::TOKEN_CHOICE &&
         resolved.token().gate() == v1::TokenRouting::COSINE;
}

int64_t RouterWidth(const v1::ModelConfig& resolved) {
  return ProjectsRouterInput(resolved.routing()) ? resolved.routing().token().projection_width()
                                                 : resolved.d_model();
}

bool LearnsDropout(const v1::ModelConfig& resolved) {
  return resolved.dropout().kind() == v1::DropoutConfig::CONCRETE;
}

int64_t ExpertWidth(const v1::ModelConfig& resolved) {
  const v1::RoutingConfig& routing = resolved.routing();
  return routing.router() == v1::TOKEN_CHOICE ? routing.token().expert_d_ff() : resolved.d_ff();
}

absl::Status CheckMadeFromDense(const v1::ModelConfig& resolved) {
  const int64_t units = ExpertWidth(resolved), experts = resolved.routing().num_experts();
  if (units == resolved.d_ff() || units * experts == resolved.d_ff()) return absl::OkStatus();
  return Invalid("routing.token.expert_d_ff", "got ", units, ", expected ", resolved.d_ff(),
                 " (copies) or a divisor of it, num_experts times (slices), since the experts come "
                 "from a dense model of d_ff ",
                 resolved.d_ff());
}

absl::Status CheckActiveExperts(const v1::ModelConfig& resolved, const std::string& field,
                                int64_t active, bool has_routing_seed) {
  const v1::RoutingConfig& routing = resolved.routing();
  if (routing.router() != v1::TOKEN_CHOICE) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": got ", active, ", but the router is ",
                                                   v1::Router_Name(routing.router()),
                                                   ", expected TOKEN_CHOICE; leave it unset"));
  }
  if (active < 1 || active > routing.num_experts()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": got ", active, ", expected 1 to ",
                                                   routing.num_experts(),
                                                   ", the number of experts of the model"));
  }
  if (routing.token().gate() == v1::TokenRouting::RELU &&
      active != routing.token().active_experts()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": got ", active,
                     ", but with the gate RELU a token uses every expert with a "
                     "positive score; leave it unset"));
  }
  if (routing.token().has_document_pool() && active > routing.token().document_pool()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": got ", active, ", expected at most document_pool ",
                     routing.token().document_pool(), " of the model"));
  }
  if (routing.token().gate() == v1::TokenRouting::RANDOM && active < routing.num_experts() &&
      !has_routing_seed) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": got ", active, ", expected ", routing.num_experts(),
                     ": outside training the gate RANDOM is defined only for all experts or with "
                     "a routing_seed (--routing-seed)"));
  }
  return absl::OkStatus();
}

absl::Status CheckRoutingSeed(const v1::ModelConfig& resolved, uint64_t routing_seed) {
  const v1::RoutingConfig& routing = resolved.routing();
  const bool chosen = routing.router() == v1::TOKEN_CHOICE;
  if (chosen && routing.token().gate() == v1::TokenRouting::RANDOM) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "routing_seed: got ", routing_seed, ", but the ",
      chosen ? absl::StrCat("gate is ", v1::TokenRouting::Gate_Name(routing.token().gate()))
             : absl::StrCat("router is ", v1::Router_Name(routing.router())),
      ", expected a model with the gate RANDOM; leave it unset"));
}

std::vector<int> MoeLayers(const v1::ModelConfig& resolved) {
  const auto& listed = resolved.routing().moe_layers();
  if (!UsesExperts(resolved)) return {};
  if (!listed.empty()) return {listed.begin(), listed.end()};
  std::vector<int> all(resolved.num_layers());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool IsMoeLayer(const v1::ModelConfig& resolved, int layer) {
  const auto& listed = resolved.routing().moe_layers();
  return UsesExperts(resolved) &&
         (listed.empty() || std::find(listed.begin(), listed.end(), layer) != listed.end());
}

int64_t TokensPerDecision(const v1::ModelConfig& resolved) {
  const v1::RoutingConfig& routing = resolved.routing();
  return RoutesTokens(routing) || CutsAtDocuments(routing) ? 1 : routing.segment_length();
}

int64_t ExpertCapacity(int64_t decisions, int64_t num_experts) {
  return (decisions + num_experts - 1) / num_experts;
}

std::vector<std::string> PresetNames() { return ListPresets(); }

absl::StatusOr<v1::ModelConfig> ResolveModelConfig(const v1::ModelConfig& config) {
  v1::ModelConfig resolved;
  if (!config.preset().empty()) {
    ASSIGN_OR_RETURN(resolved, FindPreset(config.preset()));
  }
  resolved.MergeFrom(config);
  FillDefaults(&resolved);
  RETURN_IF_ERROR(CheckShape(resolved));
  RETURN_IF_ERROR(FillMixingDefaults(&resolved));
  RETURN_IF_ERROR(CheckRouter(resolved.routing()));
  RETURN_IF_ERROR(CheckFamily(resolved));
  RETURN_IF_ERROR(CheckMoeLayers(resolved));
  RETURN_IF_ERROR(CheckSegments(resolved));
  RETURN_IF_ERROR(CheckDocuments(resolved));
  RETURN_IF_ERROR(CheckTokenRouting(resolved));
  RETURN_IF_ERROR(CheckDropout(resolved));
  RETURN_IF_ERROR(CheckLayerMixing(resolved));
  DropCompleteLayerList(resolved.num_layers(), resolved.mutable_routing());
  RETURN_IF_ERROR(CheckHeadLoss(resolved));
  RETURN_IF_ERROR(CheckLabelHead(resolved));
  DropAttentionDefaults(&resolved);
  DropDocumentDefaults(&resolved);
  DropHeadDefaults(&resolved);
  RETURN_IF_ERROR(CheckNumParameters(resolved));
  return resolved;
}

v1::ModelConfig DenseCounterpart(const v1::ModelConfig& resolved) {
  v1::ModelConfig dense = resolved;
  dense.set_preset(PresetSize(resolved.preset()));
  dense.mutable_routing()->set_num_experts(1);
  dense.mutable_routing()->set_router(v1::DENSE);
  dense.mutable_routing()->clear_moe_layers();
  dense.mutable_routing()->clear_token();
  dense.mutable_routing()->clear_segment_boundaries();
  dense.mutable_routing()->clear_reset_at_documents();
  if (!UsesDocumentEnd(dense)) dense.clear_document_end();
  // A dense model has no experts to drop, and no random gate.
  if (dense.dropout().kind() == v1::DropoutConfig::EXPERTS) dense.clear_dropout();
  if (!dense.has_dropout()) dense.clear_consistency_loss();
  return dense;
}

v1::DescribeModelResponse DescribeModel(const v1::ModelConfig& resolved) {
  const std::vector<ParameterSpec> layout = ParameterLayout(resolved);
  std::map<std::string, int64_t> sizes;
  for (const ParameterSpec& spec : layout) sizes[spec.group] += spec.size;
  v1::DescribeModelResponse response;
  *response.mutable_model() = resolved;
  int64_t total = 0;
  for (const char* name :
       {"embedding", "layer_mixing", "attention", "ffn", "router", "dropout", "norm", "head"}) {
    if (!sizes.contains(name)) continue;
    v1::ParameterGroup* group = response.add_groups();
    group->set_name(name);
    group->set_num_parameters(sizes[name]);
    total += sizes[name];
  }
  const FfnSizes ffn = SumFfnSizes(layout);
  const bool chosen = resolved.routing().router() == v1::TOKEN_CHOICE;
  const int64_t active_ffn = ffn.experts / resolved.routing().num_experts() *
                             (chosen ? resolved.routing().token().active_experts() : 1);
  response.set_num_parameters(total);
  response.set_num_active_parameters(total - sizes["router"] - ffn.experts + active_ffn);
  // Weight, gradient and two moments of 4 bytes each.
  response.set_training_state_bytes(16 * total);
  const ModelFlops flops = FlopsPerToken(resolved);
  response.set_flops_per_token(flops.active());
  response.set_merge_flops_per_token(flops.merge());
  return response;
}

}  // namespace braid
