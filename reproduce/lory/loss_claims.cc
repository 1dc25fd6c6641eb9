// Claims 1 to 4 and 7, which compare the losses of models.
#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "reproduce/arm_statistics.h"
#include "reproduce/effect_text.h"
#include "reproduce/lory/claims.h"
#include "reproduce/training_curves.h"

namespace braid {
namespace {

// Returns the gain of the MoE in similarity order minus its gain in random order.
std::vector<SignedArm> GainOfOrder() {
  return {{+1, arm::kDense, v1::SIMILARITY},
          {-1, arm::kMoe, v1::SIMILARITY},
          {-1, arm::kDense, v1::RANDOM},
          {+1, arm::kMoe, v1::RANDOM}};
}

std::optional<double> ShareOfTokens(const ArmResult& moe, const ArmResult& dense) {
  if (moe.metrics.empty() || dense.metrics.empty()) return std::nullopt;
  // The curve is averaged over as many steps as FinalLoss, so that difficult batches affect both
  // equally.
  const int64_t half_width = static_cast<int64_t>(moe.metrics.size()) / 20;
  const auto tokens = TokensToReach(moe.metrics, FinalLoss(dense.metrics), half_width);
  if (!tokens) return std::nullopt;
  return static_cast<double>(*tokens) / static_cast<double>(dense.metrics.back().num_tokens());
}

// Returns the tokens that the MoE needs to reach the final loss of the dense model, as a share of
// those of the dense model.
absl::StatusOr<EffectEstimate> TokensNeeded(const Evidence& evidence,
                                            const PairedBootstrapOptions& options) {
  const auto runs = PairedRuns(evidence, Difference(arm::kDense, arm::kMoe));
  if (!runs.ok()) return runs.status();
  std::vector<double> shares;
  for (const auto& of_seed : *runs) {
    const std::optional<double> share = ShareOfTokens(*of_seed[1], *of_seed[0]);
    if (!share)
      return absl::NotFoundError("the MoE does not reach the final loss of the dense model");
    shares.push_back(*share);
  }
  return EstimateOverSeeds(shares, options);
}

SeriesFigure LossFigure() {
  return {.name = "Training loss", .x_label = "tokens", .y_label = "nats per token"};
}

SeriesFigure GainFigure(const std::string& name, const std::string& x_label) {
  return {.name = name, .x_label = x_label, .y_label = "nats per token", .y_min = 0, .y_max = 0};
}

// Adds the curves of dense minus each of `arms` over training.
void AddGainCurves(ClaimBuilder& builder, const std::vector<std::string>& arms) {
  const SeriesFigure figure = GainFigure("Training loss, dense minus each", "tokens");
  for (const std::string& name : arms) {
    builder.AddSeries(GainCurveOf(builder.evidence(), arm::kDense, name, figure));
  }
}

// Returns the domains from least to most similar to the training data, an order that is known
// before any run.
std::vector<DomainProfile> BySimilarity(std::vector<DomainProfile> domains) {
  std::ranges::sort(domains, {}, [](const DomainProfile& domain) {
    return std::pair(domain.similarity, domain.name);
  });
  return domains;
}

// Adds baseline minus model on each domain, the least similar first, as effects that are not
// judged.
void AddDomains(ClaimBuilder& builder, const std::string& prefix,
                const std::vector<SignedArm>& arms) {
  for (const DomainProfile& domain : BySimilarity(builder.evidence().domains)) {
    HeldoutContrast contrast{.arms = arms, .groups = {{1, {domain.name}}}};
    builder.AddHeldout(absl::StrCat(prefix, domain.name), std::nullopt, contrast);
  }
}

// Returns "code (0.231), wiki (0.316)", with similarities, in the order of `domains`.
std::string WithSimilarity(const std::vector<DomainProfile>& domains,
                           const std::set<std::string>& names) {
  std::vector<std::string> texts;
  for (const DomainProfile& domain : domains) {
    if (!names.contains(domain.name)) continue;
    texts.push_back(absl::StrCat(domain.name, " (", EffectNumber(domain.similarity), ")"));
  }
  return absl::StrJoin(texts, ", ");
}

std::string DomainNote(const Evidence& evidence, const DomainContrast& contrast) {
  const std::vector<DomainProfile> domains = BySimilarity(evidence.domains);
  return absl::StrCat(
      "Domains are listed from least to most similar to the training text, by the cosine of the "
      "mean embedding of a domain with that of all training text (weighted by tokens). Least "
      "similar, the lowest third: ",
      WithSimilarity(domains, contrast.distinct),
      ". Most similar, the highest third: ", WithSimilarity(domains, contrast.majority), ".");
}

// Adds the effect on the domains least similar to the training text minus that on the most similar.
void AddDomainContrast(ClaimBuilder& builder, const std::string& name,
                       const std::vector<SignedArm>& arms) {
  const DomainContrast domains = ContrastDomains(builder.evidence());
  if (domains.distinct.empty()) {
    builder.AddPart(name, kLossUnit, kGain,
                    absl::NotFoundError("fewer than two domains have held-out text"));
    return;
  }
  builder.AddNote(DomainNote(builder.evidence(), domains));
  builder.AddHeldout(name, kGain,
                     {.arms = arms, .groups = {{+1, domains.distinct}, {-1, domains.majority}}});
}

// Adds the comparison of an arm with another segment length with the dense model, on the positions
// after the longest first segment of all arms.
void AddSegmentLength(ClaimBuilder& builder, const std::string& name, const std::string& model) {
  const HeldoutContrast contrast{.arms = Difference(arm::kDense, model),
                                 .first_positions = kLongestSegment};
  builder.AddPart(name, kLossUnit, std::nullopt,
                  HeldoutEffect(builder.evidence(), contrast, builder.settings().bootstrap));
}

// Returns the loss of a model in random order minus that in similarity order; positive if
// similarity order helps it.
std::vector<SignedArm> HelpOfOrder(const std::string& model) {
  return {{+1, model, v1::RANDOM}, {-1, model, v1::SIMILARITY}};
}

// Adds the effect of the order on each model, not judged. The judged effect is their difference,
// which does not show which model changed.
void AddHelpOfOrder(ClaimBuilder& builder) {
  const auto dense = builder.AddHeldout("held-out, dense, random minus similarity order",
                                        std::nullopt, {.arms = HelpOfOrder(arm::kDense)});
  const auto moe = builder.AddHeldout("held-out, MoE, random minus similarity order", std::nullopt,
                                      {.arms = HelpOfOrder(arm::kMoe)});
  builder.AddHeldout("held-out, dense in random minus MoE in similarity order", std::nullopt,
                     {.arms = {{+1, arm::kDense, v1::RANDOM}, {-1, arm::kMoe, v1::SIMILARITY}}});
  if (!dense || !moe) return;
  builder.AddCaution(absl::StrCat(
      "On held-out text, similarity order instead of random order changes the loss of the dense "
      "model by ",
      SignedEffectNumber(-*dense), " nats per token and that of the MoE by ",
      SignedEffectNumber(-*moe), ". The gain from the order is the first minus the second: ",
      std::abs(*dense) > std::abs(*moe) ? "the dense model changed more" : "the MoE changed more",
      *dense <= 0 && *moe <= 0 ? ", and neither improved." : "."));
}

// Adds the loss of expert choice relative to the dense model, for the interpretation of claim 4.
void AddExpertChoiceBelowDense(ClaimBuilder& builder) {
  std::string worse;
  for (const auto& [name, model] : {std::pair("by segment", arm::kExpertChoiceSegment),
                                    std::pair("by token", arm::kExpertChoiceToken)}) {
    const auto gain = builder.AddHeldout(absl::StrCat("dense minus expert choice ", name),
                                         std::nullopt, {.arms = Difference(arm::kDense, model)});
    if (gain && *gain < 0) {
      absl::StrAppend(&worse, worse.empty() ? "" : " and ", EffectNumber(-*gain),
                      " nats per token (", name, ")");
    }
  }
  builder.AddCaution(absl::StrCat(
      "Expert choice was not tuned: all arms use the learning rate that was chosen for the dense "
      "model and the MoE.",
      worse.empty() ? ""
                    : absl::StrCat(" Its loss is above that of the dense model by ", worse,
                                   ", so being below expert choice means little.")));
}

}  // namespace

DomainContrast ContrastDomains(const Evidence& evidence) {
  std::set<std::string> heldout;
  for (const ArmResult& result : evidence.results) {
    for (const HeldoutScore& score : result.heldout) {
      for (const DomainLoss& loss : LossByDomain(score)) {
        if (loss.tokens > 0) heldout.insert(loss.domain);
      }
    }
  }
  std::vector<DomainProfile> domains = BySimilarity(evidence.domains);
  std::erase_if(domains, [&](const auto& domain) { return !heldout.contains(domain.name); });
  DomainContrast contrast;
  if (domains.size() < 2) return contrast;
  const size_t third = std::max<size_t>(domains.size() / 3, 1);
  for (size_t i = 0; i < third; ++i) {
    contrast.distinct.insert(domains[i].name);
    contrast.majority.insert(domains[domains.size() - 1 - i].name);
  }
  return contrast;
}

Claim MoeBelowDense(const Evidence& evidence, const ClaimSettings& settings) {
  ClaimBuilder builder(
      evidence, settings,
      {.number = 1,
       .name = "soft MoE has a lower loss than the dense model at equal tokens",
       .source = "Figure 2",
       .paper_result = "0.3B/8E below 0.3B by 0.127 (arXiv), 0.118 (Books), 0.113 (Wikipedia), "
                       "0.037 (C4), 0.196 (Python) nats per token, from the perplexities; with 32 "
                       "experts the dense loss with fewer than half of the tokens"});
  builder.AddHeldout("held-out", kGain, {.arms = Difference(arm::kDense, arm::kMoe)});
  builder.AddTraining("training, second half", kGain, {.arms = Difference(arm::kDense, arm::kMoe)});
  builder.AddShare("tokens for the dense model's final loss", "of all tokens",
                   TokensNeeded(evidence, settings.bootstrap));
  builder.AddHeldout(
      {{"held-out, 4 experts", std::nullopt, {.arms = Difference(arm::kDense, arm::kExperts4)}},
       {"held-out, 16 experts", std::nullopt, {.arms = Difference(arm::kDense, arm::kExperts16)}}});
  AddSegmentLength(builder, "held-out, segments of 32", arm::kSegment32);
  AddSegmentLength(builder, "held-out, segments of 64", arm::kMoe);
  AddSegmentLength(builder, "held-out, segments of 128", arm::kSegment128);
  for (const char* name : {arm::kDense, arm::kMoe, arm::kExperts4, arm::kExperts16}) {
    builder.AddSeries(LossCurveOf(evidence, name, LossFigure()));
  }
  AddGainCurves(builder, {arm::kMoe, arm::kExperts4, arm::kExperts16});
  return builder.Finish();
}

Claim CausalAbovePrefix(const Evidence& evidence, const ClaimSettings& settings) {
  ClaimBuilder builder(evidence, settings,
                       {.number = 2,
                        .name = "routing every segment is better than routing on a prefix",
                        .source = "Figure 3",
                        .paper_result = "training loss with prefix routing much worse (curves)"});
  builder.AddHeldout("held-out", kGain, {.arms = Difference(arm::kPrefix, arm::kMoe)});
  builder.AddTraining("training, second half", kGain,
                      {.arms = Difference(arm::kPrefix, arm::kMoe)});
  builder.AddHeldout("held-out, dense minus prefix", std::nullopt,
                     {.arms = Difference(arm::kDense, arm::kPrefix)});
  AddGainCurves(builder, {arm::kMoe, arm::kPrefix});
  return builder.Finish();
}

Claim SimilarityOrderMatters(const Evidence& evidence, const ClaimSettings& settings) {
  ClaimBuilder builder(
      evidence, settings,
      {.number = 3,
       .name = "experts gain more on similarity-ordered text, and more as training goes on",
       .source = "Figure 4",
       .paper_result = "loss improvement of 0.3B/8E over dense much larger with similarity-based "
                       "batching, and growing with tokens (curves)"});
  builder.AddTraining("similarity minus random, training, second half", kGain,
                      {.arms = GainOfOrder()});
  builder.AddHeldout("similarity minus random, held-out", kGain, {.arms = GainOfOrder()});
  builder.AddTraining(
      "last fifth minus second fifth, training", kGain,
      {.arms = Difference(arm::kDense, arm::kMoe), .ranges = {{+1, 0.8, 1.0}, {-1, 0.2, 0.4}}});
  builder.AddHeldout("held-out, random order", std::nullopt,
                     {.arms = Difference(arm::kDense, arm::kMoe, v1::RANDOM)});
  AddHelpOfOrder(builder);
  const SeriesFigure figure =
      GainFigure("Training loss, dense minus MoE by tenths", "percent of training");
  for (const auto& [order, name] :
       {std::pair(v1::SIMILARITY, "similarity order"), std::pair(v1::RANDOM, "random order")}) {
    builder.AddSeries(GainByTenthsOf(evidence, arm::kDense, arm::kMoe, order, name, figure));
  }
  return builder.Finish();
}

Claim SoftMergingOrExpertChoice(const Evidence& evidence, const ClaimSettings& settings) {
  ClaimBuilder builder(
      evidence, settings,
      {.number = 4,
       .name = "soft merging beats expert choice by segment, is no worse than by token, and better "
               "in the domains least like the training text",
       .source = "Figure 5, Table 2",
       .paper_result = "expert choice by segment above by 0.065, 0.095, 0.132, 0.058, 0.120 nats "
                       "per token (arXiv, Books, Wikipedia, C4, Python), by token by 0.013, 0.061, "
                       "0.000, -0.038, 0.084, from the perplexities"});
  const auto segment = Difference(arm::kExpertChoiceSegment, arm::kMoe);
  const auto token = Difference(arm::kExpertChoiceToken, arm::kMoe);
  builder.AddHeldout({{"below expert choice by segment", kGain, {.arms = segment}},
                      {"below expert choice by token", kNoWorse, {.arms = token}}});
  AddDomainContrast(builder, "by token, least minus most like the training text", token);
  AddExpertChoiceBelowDense(builder);
  AddDomains(builder, "by segment, ", segment);
  AddDomains(builder, "by token, ", token);
  return builder.Finish();
}

Claim DistinctDomainsGainMost(const Evidence& evidence, const ClaimSettings& settings) {
  ClaimBuilder builder(
      evidence, settings,
      {.number = 7,
       .name = "experts gain most in domains unlike most of the training data",
       .source = "Figure 2, right",
       .paper_result =
           "0.3B/8E: 0.196 nats per token on Python, 0.113 to 0.127 on arXiv, Books and "
           "Wikipedia, 0.037 on C4"});
  const auto gain = Difference(arm::kDense, arm::kMoe);
  AddDomainContrast(builder, "held-out, least minus most like the training text", gain);
  AddDomains(builder, "", gain);
  return builder.Finish();
}

}  // namespace braid
