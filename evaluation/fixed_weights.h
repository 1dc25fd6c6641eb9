// Scores a text with fixed expert weights, the same for all segments, in place of the router
// weights. The merged FFN is then constant, so the model becomes dense.
#ifndef BRAID_EVALUATION_FIXED_WEIGHTS_H_
#define BRAID_EVALUATION_FIXED_WEIGHTS_H_

#include <google/protobuf/repeated_field.h>

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/evaluation.pb.h"
#include "evaluation/evaluation_text.h"
#include "evaluation/text_score.h"
#include "model/language_model.h"

namespace braid {

// Resolves a request field: its values in their order, without duplicates. InvalidArgument for an
// unknown value, and when `routings` lacks SEGMENT_ROUTING, whose weights are replaced.
absl::StatusOr<std::vector<v1::FixedWeights>> ResolveFixedWeights(
    const google::protobuf::RepeatedField<int>& asked,
    std::span<const v1::InferenceRouting> routings);

// Returns InvalidArgument for NEXT_DOMAIN_WEIGHTS when fewer than two domains have text.
absl::Status CheckDomains(std::span<const v1::FixedWeights> weights, const EvaluationText& text);

// Weights of a model's experts, [MoE layer][E].
using ExpertWeights = std::vector<std::vector<double>>;

// Returns the weights for each domain of `routed`, a score with segment routing in which at least
// one domain has text. The next domain is the next one with text.
std::vector<ExpertWeights> ResolveWeights(v1::FixedWeights weights, const TextScore& routed);

// Scores `text` again, each domain with the dense model made of `model` by the domain's weights;
// one of these is in memory at a time. `routed` is the model's score of `text` with segment
// routing. The result's routing holds the fixed weights, for as many decisions. InvalidArgument for
// a model that merges no experts.
absl::StatusOr<TextScore> ScoreWithFixedWeights(LanguageModel& model, const EvaluationText& text,
                                                v1::FixedWeights weights, const TextScore& routed,
                                                const ScoreOptions& options,
                                                const WindowsScored& scored);

}  // namespace braid

#endif  // BRAID_EVALUATION_FIXED_WEIGHTS_H_
