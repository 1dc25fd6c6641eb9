// Claims 5, 6 and 8 to 10, on the behavior of the routers and its effect on the loss.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "reproduce/arm_statistics.h"
#include "reproduce/lory/claims.h"
#include "reproduce/training_curves.h"

namespace braid {
namespace {

constexpr VerdictRule kEqual = {EffectRule::kEquivalent, kEqualLosses, kSingleSeedAllowance};
// With one seed these have no interval, so they have no allowance.
constexpr VerdictRule kHigherShare = {EffectRule::kPositive, kSmallestShare, 0};
constexpr VerdictRule kHigherDivergence = {EffectRule::kPositive, kSmallestDivergence, 0};

constexpr char kShareUnit[] = "of the experts";
constexpr char kDivergenceUnit[] = "nats";

double MeanOf(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Returns the mean divergence of the layers after the first minus that of the first.
std::optional<double> DivergenceOfHigherLayers(const ArmResult& result) {
  const std::vector<double> layers = DivergenceByLayer(result);
  if (layers.size() < 2) return std::nullopt;
  return MeanOf(std::span(layers).subspan(1)) - layers.front();
}

std::optional<double> MeanDivergence(const ArmResult& result) {
  const std::vector<double> layers = DivergenceByLayer(result);
  if (layers.empty()) return std::nullopt;
  return MeanOf(layers);
}

ClaimSeries Divergence(const Evidence& evidence, v1::OrderMode order, const std::string& name) {
  ClaimSeries series{.name = name,
                     .figure = {.name = "Divergence of the domains' routing by layer",
                                .shape = SeriesShape::kBars,
                                .x_label = "nats"}};
  const auto runs = PairedRuns(evidence, {{1, arm::kMoe, order}});
  if (!runs.ok()) return series;
  for (const auto& of_seed : *runs) {
    const std::vector<double> layers = DivergenceByLayer(*of_seed[0]);
    series.values.resize(layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      series.values[i] += layers[i] / static_cast<double>(runs->size());
    }
  }
  for (size_t i = 0; i < series.values.size(); ++i) {
    series.labels.push_back(absl::StrCat("layer ", i));
  }
  return series;
}

ClaimSeries HeatRow(const DomainWeights& domain, size_t layer) {
  ClaimSeries row{.name = domain.domain,
                  .values = domain.layers[layer],
                  .figure = {.name = absl::StrCat("Routing weights, layer ", layer),
                             .shape = SeriesShape::kHeatRow,
                             .x_label = "expert"}};
  for (size_t e = 0; e < row.values.size(); ++e) row.labels.push_back(absl::StrCat(e));
  return row;
}

// Adds the routing weights of the first seed, since experts of different seeds do not correspond:
// one figure per layer, one row per domain.
void AddHeatMaps(ClaimBuilder& builder) {
  const auto runs = PairedRuns(builder.evidence(), {{1, arm::kMoe}});
  if (!runs.ok() || runs->front().front()->routing.empty()) return;
  const std::vector<DomainWeights>& domains = runs->front().front()->routing;
  for (size_t layer = 0; layer < domains.front().layers.size(); ++layer) {
    for (const DomainWeights& domain : domains) builder.AddSeries(HeatRow(domain, layer));
  }
  builder.AddNote(
      absl::StrCat("Routing weights: mean over the held-out segments of a domain, seed ",
                   runs->front().front()->seed,
                   " in similarity order. Experts of different layers do not correspond."));
}

// Returns the contrast of the MoE with another routing minus its own routing.
std::vector<SignedArm> WorseThanOwn(ScoredRouting routing) {
  return {{+1, arm::kMoe, v1::SIMILARITY, routing}, {-1, arm::kMoe}};
}

}  // namespace

Claim ExpertsAreUsed(const Evidence& evidence, const ClaimSettings& settings) {
  ClaimBuilder builder(
      evidence, settings,
      {.number = 5,
       .name = "most experts are in use without a balancing loss, and more after a dense warm-up",
       .source = "Figures 9 and 10",
       .paper_result = "1.5B/8E and 1.5B/16E use most experts, 1.5B/32E about 900 of 1,536 (0.59); "
                       "without warm-up far fewer (curves)"});
  builder.AddStatistic("in use at the end, beyond one half", kShareUnit, kHigherShare,
                       {{+1, arm::kMoe}}, [](const ArmResult& result) -> std::optional<double> {
                         const auto share = ActiveShare(result);
                         return share ? std::optional(*share - 0.5) : share;
                       });
  builder.AddStatistic("more with warm-up, 8 experts", kShareUnit, kHigherShare,
                       {{+1, arm::kMoe}, {-1, arm::kNoWarmup}}, ActiveShare);
  builder.AddStatistic("more with warm-up, 16 experts", kShareUnit, kHigherShare,
                       {{+1, arm::kExperts16}, {-1, arm::kNoWarmup16}}, ActiveShare);
  const SeriesFigure in_use = {.name = "Experts in use over training",
                               .x_label = "tokens",
                               .y_label = "share of the experts",
                               .y_min = 0,
                               .y_max = 1};
  for (const char* name :
       {arm::kExperts4, arm::kMoe, arm::kExperts16, arm::kNoWarmup, arm::kNoWarmup16}) {
    builder.AddShare(absl::StrCat("in use at the end, ", name), kShareUnit,
                     StatisticEffect(evidence, {{+1, name}}, ActiveShare, settings.bootstrap));
    builder.AddSeries(UtilizationCurveOf(evidence, name, in_use));
  }
  builder.AddHeldout("held-out, without warm-up minus with", std::nullopt,
                     {.arms = Difference(arm::kNoWarmup, arm::kMoe)});
  return builder.Finish();
}

Claim ExpertsSpecialize(const Evidence& evidence, const ClaimSettings& settings) {
  ClaimBuilder builder(
      evidence, settings,
      {.number = 6,
       .name = "routing distinguishes domains, most in layers after the first and on ordered text",
       .source = "Figures 6 and 11",
       .paper_result = "specialized experts in middle and higher layers of 0.3B/8E, uniform "
                       "weights in layer 0 (heat maps)"});
  builder.AddStatistic("divergence, higher layers minus layer 0", kDivergenceUnit,
                       kHigherDivergence, {{+1, arm::kMoe}}, DivergenceOfHigherLayers);
  builder.AddStatistic("divergence, similarity minus random order", kDivergenceUnit,
                       kHigherDivergence, {{+1, arm::kMoe}, {-1, arm::kMoe, v1::RANDOM}},
                       MeanDivergence);
  builder.AddSeries(Divergence(evidence, v1::SIMILARITY, "similarity order"));
  builder.AddSeries(Divergence(evidence, v1::RANDOM, "random order"));
  AddHeatMaps(builder);
  return builder.Finish();
}

Claim PromptRoutingIsEnough(const Evidence& evidence, const ClaimSettings& settings) {
  ClaimBuilder builder(
      evidence, settings,
      {.number = 8,
       .name = "one routing decision from the beginning is about as good as one per segment",
       .source = "Table 9 (Table 5 of version 1)",
       .paper_result = "mean task accuracy, prompt against segment routing: 45.4 and 45.1 "
                       "(1.5B/8E), 44.4 and 44.7 (1.5B/16E)"});
  builder.AddHeldout("held-out, one decision minus one per segment", kEqual,
                     {.arms = WorseThanOwn(ScoredRouting::kPrompt)});
  return builder.Finish();
}

Claim RoutingMatters(const Evidence& evidence, const ClaimSettings& settings) {
  ClaimBuilder builder(evidence, settings,
                       {.number = 9, .name = "the decisions of the routers matter"});
  builder.AddHeldout(
      {{"average weights minus own", kGain, {.arms = WorseThanOwn(ScoredRouting::kAverage)}},
       {"uniform weights minus own", kGain, {.arms = WorseThanOwn(ScoredRouting::kUniform)}},
       {"another domain's weights minus own",
        kGain,
        {.arms = WorseThanOwn(ScoredRouting::kOtherDomain)}}});
  return builder.Finish();
}

Claim FirstSegmentLeaks(const Evidence& evidence, const ClaimSettings& settings) {
  ClaimBuilder builder(evidence, settings,
                       {.number = 10,
                        .name = "the first segment, which is routed on itself, sees some of the "
                                "tokens that it predicts"});
  const auto gain = Difference(arm::kDense, arm::kMoe);
  const auto uniform = Difference(arm::kUniformFirst, arm::kMoe);
  auto average = gain;
  average[1].routing = ScoredRouting::kAverage;
  const std::vector<PositionGroup> first = {{1, true}};
  builder.AddHeldout(
      {{"dense minus MoE, first minus later segments",
        kGain,
        {.arms = gain, .positions = {{+1, true}, {-1, false}}}},
       {"first segment, uniform minus self-routing", kGain, {.arms = uniform, .positions = first}},
       {"later segments, uniform minus self-routing", std::nullopt, {.arms = uniform}},
       {"first segment, dense minus MoE", std::nullopt, {.arms = gain, .positions = first}},
       {"first segment, dense minus MoE with average weights",
        std::nullopt,
        {.arms = average, .positions = first}}});
  return builder.Finish();
}

std::vector<Claim> EvaluateLoryClaims(const Evidence& evidence, const ClaimSettings& settings) {
  return {
      MoeBelowDense(evidence, settings),           CausalAbovePrefix(evidence, settings),
      SimilarityOrderMatters(evidence, settings),  SoftMergingOrExpertChoice(evidence, settings),
      ExpertsAreUsed(evidence, settings),          ExpertsSpecialize(evidence, settings),
      DistinctDomainsGainMost(evidence, settings), PromptRoutingIsEnough(evidence, settings),
      RoutingMatters(evidence, settings),          FirstSegmentLeaks(evidence, settings)};
}

}  // namespace braid
