// Scores with weights in place of the routers' own that are the same for all segments: with
// those, experts make a dense model.
#ifndef BRAID_EVALUATION_FIXED_WEIGHTS_H_
#define BRAID_EVALUATION_FIXED_WEIGHTS_H_

#include <google/protobuf/repeated_field.h>

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/evaluation_text.h"
#include "evaluation/text_score.h"
#include "model/language_model.h"

namespace braid {

// Those of a request's field, in its order and each once. InvalidArgument for a number that
// stands for none, and when `routings` has no SEGMENT_ROUTING, whose weights they replace.
absl::StatusOr<std::vector<v1::FixedWeights>> ResolveFixedWeights(
    const google::protobuf::RepeatedField<int>& asked,
    std::span<const v1::InferenceRouting> routings);

// InvalidArgument for NEXT_DOMAIN_WEIGHTS and fewer than two domains with text.
absl::Status CheckDomains(std::span<const v1::FixedWeights> weights, const EvaluationText& text);

// Weights of a model's experts, [MoE layer][E].
using ExpertWeights = std::vector<std::vector<double>>;

// What `weights` comes to for each domain of `routed`, a score with segment routing, in which some
// domain has text. The next domain is the next one with text.
std::vector<ExpertWeights> ResolveWeights(v1::FixedWeights weights, const TextScore& routed);

// Scores `text` once more, each domain by the dense model that its weights make of `model`;
// one of these is in memory at a time. `routed` is the model's score of `text` with segment
// routing. The result's routing has the fixed weights, for as many decisions.
// InvalidArgument for a model that merges no experts.
absl::StatusOr<TextScore> ScoreWithFixedWeights(LanguageModel& model, const EvaluationText& text,
                                                v1::FixedWeights weights, const TextScore& routed,
                                                const ScoreOptions& options,
                                                const WindowsScored& scored);

}  // namespace braid

#endif  // BRAID_EVALUATION_FIXED_WEIGHTS_H_
