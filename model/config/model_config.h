// The resolved model configuration: presets, defaults, validation, sizes.
//
//   v1::ModelConfig request;
//   request.set_preset("tiny/8E");
//   ASSIGN_OR_RETURN(v1::ModelConfig config, ResolveModelConfig(request));
//
// Presets are named as in arXiv 2405.03133, Table 1: a dense size ("0.3B", "1.5B", "7B"),
// optionally followed by a slash and the number of experts. The small sizes ("tiny", "small",
// "medium") are meant for one machine.
#ifndef BRAID_MODEL_CONFIG_MODEL_CONFIG_H_
#define BRAID_MODEL_CONFIG_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/forecast.pb.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Returns `config` with its preset applied below the fields set in it and every default filled in.
// Fields from num_key_value_heads on remain unset when they have their defaults, so that equal
// models compare equal whichever version wrote them. Idempotent. InvalidArgument names the field,
// its value, what is expected and (for a preset) the nearest name.
absl::StatusOr<v1::ModelConfig> ResolveModelConfig(const v1::ModelConfig& config);

// Returns every named preset, small to large. Any other number of experts after a size ("tiny/12E")
// resolves too.
std::vector<std::string> PresetNames();

// Returns parameter counts, training state and FLOPs of a resolved configuration. FLOPs count a
// multiply-add as two; attention counts the causal half only.
v1::DescribeModelResponse DescribeModel(const v1::ModelConfig& resolved);

// Returns the dense model of the same active size: one expert, router DENSE. Everything else is
// unchanged, including segment_length, so that both models score the same tokens.
v1::ModelConfig DenseCounterpart(const v1::ModelConfig& resolved);

// Returns true when at least one layer has experts: for every router but DENSE.
bool UsesExperts(const v1::ModelConfig& resolved);

// Returns true when the router averages experts into one FFN (CAUSAL_SEGMENT, PREFIX), false for
// expert choice and DENSE.
bool MergesExperts(const v1::RoutingConfig& resolved);

// Returns true when the router decides for each token (EXPERT_CHOICE_TOKEN, TOKEN_CHOICE).
bool RoutesTokens(const v1::RoutingConfig& resolved);

// Returns true when the experts of a token depend on other tokens of its sequence: for every router
// but DENSE and TOKEN_CHOICE.
bool RoutesOnOtherTokens(const v1::RoutingConfig& resolved);

// Returns true when layers with experts have a router matrix: for every router with experts, except
// TOKEN_CHOICE with a gate that is computed (KEY_MEAN) or drawn (RANDOM).
bool HasRouterMatrix(const v1::RoutingConfig& resolved);

// Returns whether the gate scores a projection of its input (COSINE).
bool ProjectsRouterInput(const v1::RoutingConfig& resolved);

// Returns the columns of the router's matrix: d_model, or the width of the projection.
int64_t RouterWidth(const v1::ModelConfig& resolved);

// Returns whether layers have a parameter for their rate of dropout (CONCRETE).
bool LearnsDropout(const v1::ModelConfig& resolved);

// Returns the hidden units of one expert: token.expert_d_ff for TOKEN_CHOICE, d_ff otherwise.
int64_t ExpertWidth(const v1::ModelConfig& resolved);

// Returns OK when a dense FFN can become the experts of a resolved model: as copies, or, with
// TOKEN_CHOICE, as slices. InvalidArgument names the width that fits.
absl::Status CheckMadeFromDense(const v1::ModelConfig& resolved);

// Returns OK when tokens can use `active` experts of the model: 1 to num_experts of a TOKEN_CHOICE
// router, and all of them with the gate RANDOM unless a routing seed chooses. InvalidArgument names
// `field`.
absl::Status CheckActiveExperts(const v1::ModelConfig& resolved, const std::string& field,
                                int64_t active, bool has_routing_seed = false);

// Returns OK when a request's routing_seed has a meaning: for the gate RANDOM. InvalidArgument
// names the field.
absl::Status CheckRoutingSeed(const v1::ModelConfig& resolved, uint64_t routing_seed);

// Returns the layers with experts, ascending; empty for a dense model.
std::vector<int> MoeLayers(const v1::ModelConfig& resolved);
bool IsMoeLayer(const v1::ModelConfig& resolved, int layer);

// Returns the number of consecutive positions that share one row of routing weights: 1 where tokens
// are routed (RoutesTokens) or segments begin with documents, otherwise segment_length.
int64_t TokensPerDecision(const v1::ModelConfig& resolved);

// Returns how many of the `decisions` (segments or tokens) of a sequence an expert takes at
// capacity factor 1: decisions / num_experts, rounded up.
int64_t ExpertCapacity(int64_t decisions, int64_t num_experts);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_MODEL_CONFIG_H_
