#include "reproduce/routers/routers_claims.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "reproduce/arm_statistics.h"
#include "reproduce/effect_text.h"
#include "reproduce/training_curves.h"

namespace braid {
namespace {

constexpr RouterRival kRivals[] = {
    {"dense"},   {"expert-choice", 0, false}, {"top-1", 1}, {"top-2", 2},
    {"relu", 2}, {"expert-pool", 2},          {"hash", 2},  {"dense-wide"}};

using Metrics = std::vector<v1::StepMetrics>;

// Returns the loss of the rival minus that of soft merging, or the reverse.
std::vector<SignedArm> RivalMinusSoft(const RouterRival& rival, v1::OrderMode order,
                                      double sign = 1) {
  return {{.sign = sign, .arm = rival.name, .order = order, .active_experts = rival.active_experts},
          {.sign = -sign, .arm = kSoftMerging, .order = order}};
}

double SecondsOf(const Metrics& metrics) {
  double seconds = 0;
  for (const v1::StepMetrics& step : metrics) seconds += step.step_seconds();
  return seconds;
}

// Returns FinalLoss of the steps that end within `seconds`, at least one. Requires steps.
double LossAfter(const Metrics& metrics, double seconds) {
  size_t steps = 0;
  for (double used = 0; steps < metrics.size(); ++steps) {
    used += metrics[steps].step_seconds();
    // The tolerance allows for rounding of the sums.
    if (used > seconds * (1 + 1e-9)) break;
  }
  return FinalLoss(std::span(metrics).first(std::max<size_t>(steps, 1)));
}

// Returns the training loss of the rival minus that of soft merging after the time of the run that
// took less.
absl::StatusOr<EffectEstimate> EqualTimeEffect(const Evidence& evidence, const RouterRival& rival,
                                               v1::OrderMode order,
                                               const PairedBootstrapOptions& options) {
  if (!rival.causal_training) {
    return absl::NotFoundError("its training losses are not those of a causal model");
  }
  ASSIGN_OR_RETURN(const auto runs, PairedRuns(evidence, RivalMinusSoft(rival, order)));
  std::vector<double> effects;
  for (const auto& of_seed : runs) {
    const Metrics &other = of_seed[0]->metrics, &soft = of_seed[1]->metrics;
    const double seconds = std::min(SecondsOf(other), SecondsOf(soft));
    if (seconds <= 0) return absl::NotFoundError("the steps of a run have no times");
    effects.push_back(LossAfter(other, seconds) - LossAfter(soft, seconds));
  }
  return EstimateOverSeeds(effects, options);
}

// Adds the sentence that soft merging loses, where this is shown by the rule of a gain.
void AddLoss(ClaimBuilder& builder, const RouterRival& rival, v1::OrderMode order,
             const std::string& order_name) {
  const auto loss = HeldoutEffect(builder.evidence(),
                                  {.arms = RivalMinusSoft(rival, order, -1),
                                   .first_positions = builder.settings().segment_length},
                                  builder.settings().bootstrap);
  if (!loss.ok() || Judge(*loss, kGain) != Verdict::kShown) return;
  builder.AddCaution(absl::StrCat("Soft merging loses to ", rival.name, " in ", order_name,
                                  " order: its held-out loss is ", EffectNumber(loss->effect),
                                  " nats per token higher."));
}

Claim BelowRival(const Evidence& evidence, const ClaimSettings& settings, int number,
                 const RouterRival& rival) {
  ClaimBuilder builder(
      evidence, settings,
      {.number = number, .name = absl::StrCat("soft merging has a lower loss than ", rival.name)});
  const std::string title = absl::StrCat(rival.name, " minus soft merging, ");
  constexpr v1::OrderMode kOrders[] = {v1::SIMILARITY, v1::RANDOM};
  const auto name_of = [](v1::OrderMode order) {
    return absl::AsciiStrToLower(v1::OrderMode_Name(order));
  };
  for (const v1::OrderMode order : kOrders) {
    builder.AddHeldout(absl::StrCat(title, name_of(order), " order"), kGain,
                       {.arms = RivalMinusSoft(rival, order)});
  }
  for (const v1::OrderMode order : kOrders) {
    builder.AddPart(absl::StrCat(title, name_of(order), " order, training loss at equal time"),
                    kLossUnit, std::nullopt,
                    EqualTimeEffect(evidence, rival, order, settings.bootstrap));
  }
  std::vector<SignedArm> change = RivalMinusSoft(rival, v1::SIMILARITY);
  std::ranges::copy(RivalMinusSoft(rival, v1::RANDOM, -1), std::back_inserter(change));
  builder.AddHeldout(absl::StrCat(title, "similarity minus random order"), std::nullopt,
                     {.arms = change});
  for (const v1::OrderMode order : kOrders) AddLoss(builder, rival, order, name_of(order));
  if (number == 1) {
    const SeriesFigure figure = {.name = "Training loss, similarity order",
                                 .x_label = "tokens",
                                 .y_label = "nats per token"};
    builder.AddSeries(LossCurveOf(evidence, kSoftMerging, figure));
    for (const RouterRival& other : kRivals) {
      if (!other.causal_training) continue;
      builder.AddSeries(LossCurveOf(evidence, other.name, figure));
    }
  }
  return builder.Finish();
}

}  // namespace

std::span<const RouterRival> RouterRivals() { return kRivals; }

std::vector<Claim> EvaluateRouterClaims(const Evidence& evidence, const ClaimSettings& settings) {
  std::vector<Claim> claims;
  for (const RouterRival& rival : kRivals) {
    claims.push_back(BelowRival(evidence, settings, static_cast<int>(claims.size()) + 1, rival));
  }
  return claims;
}

}  // namespace braid
