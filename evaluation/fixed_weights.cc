#include "evaluation/fixed_weights.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "evaluation/score_summary.h"
#include "model/merged_model.h"
#include "trainer/routing_totals.h"

namespace braid {
namespace {

ExpertWeights MeanWeightsByLayer(const std::vector<RoutingTotals>& routing) {
  ExpertWeights weights;
  for (const RoutingTotals& layer : routing) weights.push_back(MeanWeights(layer));
  return weights;
}

ExpertWeights UniformWeights(const std::vector<RoutingTotals>& routing) {
  ExpertWeights weights;
  for (const RoutingTotals& layer : routing) {
    weights.emplace_back(layer.num_experts(), 1.0 / layer.num_experts());
  }
  return weights;
}

bool HasText(const DomainScore& domain) { return !domain.windows.empty(); }

// Returns the next domain with text in order of name, cyclically.
const DomainScore& NextDomain(const DomainScore& domain, const TextScore& score) {
  const DomainScore *first = nullptr, *next = nullptr;
  for (const DomainScore& other : score) {
    if (!HasText(other)) continue;
    if (first == nullptr || other.name < first->name) first = &other;
    if (other.name > domain.name && (next == nullptr || other.name < next->name)) next = &other;
  }
  BRAID_CHECK(first != nullptr) << "no domain has text";
  return next != nullptr ? *next : *first;
}

std::vector<RoutingTotals> RoutingBy(const ExpertWeights& weights,
                                     const std::vector<RoutingTotals>& routed) {
  std::vector<RoutingTotals> routing;
  for (size_t i = 0; i < routed.size(); ++i) {
    routing.push_back(EqualDecisions(weights[i], routed[i].num_decisions()));
  }
  return routing;
}

}  // namespace

absl::StatusOr<std::vector<v1::FixedWeights>> ResolveFixedWeights(
    const google::protobuf::RepeatedField<int>& asked,
    std::span<const v1::InferenceRouting> routings) {
  std::vector<v1::FixedWeights> all;
  for (const int value : asked) {
    if (!v1::FixedWeights_IsValid(value) || value == v1::FIXED_WEIGHTS_UNSPECIFIED) {
      return absl::InvalidArgumentError(
          absl::StrCat("fixed_weights: got ", value,
                       ", expected AVERAGE_WEIGHTS, UNIFORM_WEIGHTS or NEXT_DOMAIN_WEIGHTS"));
    }
    const auto weights = static_cast<v1::FixedWeights>(value);
    if (std::ranges::find(all, weights) == all.end()) all.push_back(weights);
  }
  if (all.empty() || std::ranges::find(routings, v1::SEGMENT_ROUTING) != routings.end()) return all;
  return absl::InvalidArgumentError(
      "fixed_weights: routings lacks SEGMENT_ROUTING, whose weights are replaced; add it "
      "(--routing segment or both)");
}

absl::Status CheckDomains(std::span<const v1::FixedWeights> weights, const EvaluationText& text) {
  if (std::ranges::find(weights, v1::NEXT_DOMAIN_WEIGHTS) == weights.end()) return absl::OkStatus();
  const auto with_text = std::ranges::count_if(
      text.domains, [](const DomainText& domain) { return !domain.tokens.empty(); });
  if (with_text >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("fixed_weights: NEXT_DOMAIN_WEIGHTS needs two domains with text, got ",
                   with_text, "; score text of several domains, or omit NEXT_DOMAIN_WEIGHTS"));
}

std::vector<ExpertWeights> ResolveWeights(v1::FixedWeights weights, const TextScore& routed) {
  const std::vector<RoutingTotals> all = AllDomains(routed).routing;
  std::vector<ExpertWeights> by_domain;
  for (const DomainScore& domain : routed) {
    by_domain.push_back(weights == v1::AVERAGE_WEIGHTS ? MeanWeightsByLayer(all)
                        : weights == v1::UNIFORM_WEIGHTS
                            ? UniformWeights(all)
                            : MeanWeightsByLayer(NextDomain(domain, routed).routing));
  }
  return by_domain;
}

absl::StatusOr<TextScore> ScoreWithFixedWeights(LanguageModel& model, const EvaluationText& text,
                                                v1::FixedWeights weights, const TextScore& routed,
                                                const ScoreOptions& options,
                                                const WindowsScored& scored) {
  const std::vector<ExpertWeights> by_domain = ResolveWeights(weights, routed);
  TextScore score;
  std::unique_ptr<LanguageModel> merged;
  for (size_t d = 0; d < text.domains.size(); ++d) {
    if (d == 0 || by_domain[d] != by_domain[d - 1]) {
      merged.reset();
      ASSIGN_OR_RETURN(merged, MergeExperts(model, by_domain[d]));
    }
    ASSIGN_OR_RETURN(score.emplace_back(),
                     ScoreDomain(*merged, text.domains[d], text.eos_id, options, scored));
    score.back().routing = RoutingBy(by_domain[d], routed[d].routing);
  }
  return score;
}

}  // namespace braid
