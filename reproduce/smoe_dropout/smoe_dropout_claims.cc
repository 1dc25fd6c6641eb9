#include "reproduce/smoe_dropout/smoe_dropout_claims.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "reproduce/arm_statistics.h"
#include "reproduce/smoe_dropout/routing_series.h"
#include "reproduce/training_curves.h"

namespace braid {
namespace {

constexpr char kMethod[] = "smoe-dropout";
// Smallest saving of interest: 2 % of the time.
constexpr VerdictRule kFaster = {EffectRule::kPositive, 0.02, 0};
// One number per run, so that one seed has no interval.
constexpr VerdictRule kSmallerGap = {EffectRule::kPositive, kSmallestGain, 0};

// The sizes of models beside the main one.
struct SmoeSize {
  const char* suffix;
  const char* text;
  int32_t num_experts;
};
constexpr SmoeSize kSizes[] = {{"-depth-2", "2 layers", kSmoeExperts},
                               {"-depth-8", "8 layers", kSmoeExperts},
                               {"-ffn-256", "4 experts of 64 units", 4},
                               {"-ffn-512", "8 experts of 64 units", 8}};

// Arms whose tokens use the same number of experts in all steps, and their gates.
constexpr std::pair<const char*, const char*> kGatesOfConstantK[] = {
    {"fixed-k", "frozen gate, k 8"},
    {"learned-half", "learned gate, k 8"},
    {"learned", "learned gate, k 2"}};

// Returns a model scored with `active` experts per token; 0: a dense model.
SignedArm Scored(double sign, const std::string& name, int32_t active) {
  return {.sign = sign, .arm = name, .order = v1::RANDOM, .active_experts = active};
}

// Returns the method with all experts, to be subtracted.
SignedArm Method(const std::string& suffix = "", int32_t active = kSmoeExperts) {
  return Scored(-1, kMethod + suffix, active);
}

// Returns the gap between held-out and training loss with as many experts as in training.
std::optional<double> Overfitting(const ArmResult& result) {
  if (result.metrics.empty()) return std::nullopt;
  const int32_t active = result.metrics.back().active_experts();
  const HeldoutScore* const score =
      FindScore(result, ScoredRouting::kSegment, kUnscoredPositions, active);
  if (score == nullptr) return std::nullopt;
  return MeanLoss(*score) - FinalLoss(result.metrics);
}

class SmoeClaims {
 public:
  SmoeClaims(const Evidence& evidence, const ClaimSettings& settings)
      : evidence_(evidence), settings_(settings) {}

  Claim BestWithAllExperts() const {
    ClaimBuilder builder =
        Builder({.number = 1,
                 .name = "with all experts, SMoE-Dropout has the lowest loss",
                 .source = "Table 1",
                 .paper_result = "Transformer-XL 1.1486 bits per character; dense with "
                                 "dropout 1.1623, concrete 1.3335, DropBlock 1.2468, THOR "
                                 "1.3110, learned gate 1.1896"});
    for (const char* name : {"dense-dropout", "dense-concrete", "dense-dropblock"}) {
      Add(builder, absl::StrCat(name, " minus SMoE-Dropout"), kGain,
          {Scored(1, name, 0), Method()});
    }
    Add(builder, "thor minus SMoE-Dropout", kGain, {Scored(1, "thor", kSmoeExperts), Method()});
    Add(builder, "learned, its own k, minus SMoE-Dropout", kGain,
        {Scored(1, "learned", 2), Method()});
    Report(builder, "dense minus SMoE-Dropout", {Scored(1, "dense", 0), Method()});
    for (const char* name : {"learned-half", "learned-growing", "from-1", "as-printed"}) {
      const int32_t own = std::string(name) == "learned-half" ? 8 : kSmoeExperts;
      Report(builder, absl::StrCat(name, " minus SMoE-Dropout"), {Scored(1, name, own), Method()});
    }
    for (const char* name : {"dense-dropout-fresh", "dense-fresh"}) {
      Report(builder, absl::StrCat(name, " minus SMoE-Dropout, fresh"),
             {Scored(1, name, 0), Method("-fresh")});
    }
    AddCurves(builder, "Training loss",
              {"dense", "dense-dropout", kMethod, "learned", "thor", "dense-concrete",
               "dense-dropblock"});
    AddCurves(builder, "Training loss, fresh text",
              {"dense-fresh", "dense-dropout-fresh", "smoe-dropout-fresh"});
    AddBitsNote(builder);
    return builder.Finish();
  }

  Claim HalfIsEnough() const {
    ClaimBuilder builder = Builder(
        {.number = 2,
         .name = "half of the experts are no worse than a dense model with dropout",
         .source = "Table 1",
         .paper_result = "Transformer-XL 1.1776 and 1.1623 bits per character, BERT 7.6372 and "
                         "7.6546"});
    Add(builder, "dense-dropout minus SMoE-Dropout with 8 experts", kNoWorse,
        {Scored(1, "dense-dropout", 0), Method("", 8)});
    return builder.Finish();
  }

  Claim SlimsSmoothly() const {
    ClaimBuilder builder = Builder({.number = 3,
                                    .name = "every doubling of k at use lowers the loss",
                                    .source = "Figures 1 and 3",
                                    .paper_result = "the loss falls smoothly with k (curves)"});
    for (const char* name : {kMethod, "learned", "learned-half", "learned-growing", "thor"}) {
      for (int32_t active = 1; active < kSmoeExperts; active *= 2) {
        Add(builder, absl::StrCat(name, ", k ", active, " minus k ", 2 * active),
            name == kMethod ? std::optional(kGain) : std::nullopt,
            {Scored(1, name, active), Scored(-1, name, 2 * active)});
      }
    }
    AddLossesByExperts(builder, "",
                       {kMethod, "learned", "learned-half", "learned-growing", "fixed-k", "from-1",
                        "as-printed", "hash"});
    AddLossesByExperts(builder, ", thor", {"thor"});
    return builder.Finish();
  }

  Claim GrowingIsNeeded() const {
    ClaimBuilder builder = Builder({.number = 4,
                                    .name = "trained with a fixed k, all experts are worse than k",
                                    .source = "Figure 5d",
                                    .paper_result = "without growing k the loss rises (curves)"});
    for (const char* name : {"fixed-k", "learned-half"}) {
      Add(builder, absl::StrCat(name, ", k 16 minus k 8"), kGain,
          {Scored(1, name, kSmoeExperts), Scored(-1, name, 8)});
    }
    AddCurves(builder, "Training loss, other k",
              {kMethod, "fixed-k", "learned-half", "learned-growing", "from-1", "as-printed"});
    return builder.Finish();
  }

  Claim FrozenIsBetter() const {
    ClaimBuilder builder = Builder({.number = 5,
                                    .name = "a frozen gate is better than random experts at each "
                                            "step and than a hash of the token",
                                    .source = "Figure 5c",
                                    .paper_result = "0.0296 to 1.70 bits per character"});
    for (const char* name : {"random-each-step", "hash"}) {
      Add(builder, absl::StrCat(name, " minus SMoE-Dropout"), kGain,
          {Scored(1, name, kSmoeExperts), Method()});
    }
    AddCurves(builder, "Training loss, other gates", {kMethod, "random-each-step", "hash"});
    AddRouting(builder);
    return builder.Finish();
  }

  Claim NeedsCapacity() const {
    ClaimBuilder builder =
        Builder({.number = 6,
                 .name = "the advantage grows with depth and with the number of experts",
                 .source = "Figures 5a and 5b",
                 .paper_result = "dense is better with 2 layers or up to 8 experts (curves)"});
    Add(builder, "dense-dropout minus SMoE-Dropout, 8 minus 2 layers", kGain,
        {Scored(1, "dense-dropout-depth-8", 0), Method("-depth-8"),
         Scored(-1, "dense-dropout-depth-2", 0), Scored(1, "smoe-dropout-depth-2", kSmoeExperts)});
    AddDropoutGap(builder, kGain, 4);
    Add(builder, "SMoE-Dropout, 4 minus 16 experts", kGain,
        {Scored(1, "smoe-dropout-experts-4", 4), Method()});
    AddDropoutGap(builder, std::nullopt, 8);
    Report(builder, "SMoE-Dropout, 8 minus 16 experts",
           {Scored(1, "smoe-dropout-experts-8", 8), Method()});
    for (const SmoeSize& size : kSizes) {
      const SignedArm method = Method(size.suffix, size.num_experts);
      Report(builder, absl::StrCat("dense-dropout minus SMoE-Dropout, ", size.text),
             {Scored(1, absl::StrCat("dense-dropout", size.suffix), 0), method});
      Report(builder, absl::StrCat("learned, its own k, minus SMoE-Dropout, ", size.text),
             {Scored(1, absl::StrCat("learned", size.suffix), 2), method});
      AddCurves(builder, absl::StrCat("Training loss, ", size.text),
                {absl::StrCat("dense", size.suffix), absl::StrCat("dense-dropout", size.suffix),
                 kMethod + std::string(size.suffix), absl::StrCat("learned", size.suffix)});
    }
    AddCurves(builder, "Training loss, larger experts",
              {kMethod, "smoe-dropout-experts-8", "smoe-dropout-experts-4"});
    builder.AddNote(
        "Effects that compare the method with itself split an FFN of 1,024 units into fewer "
        "experts. In all others an expert has 64 units, and the FFN as many as all experts.");
    return builder.Finish();
  }

  Claim LaterLayersAreBetter() const {
    ClaimBuilder builder = Builder({.number = 7,
                                    .name = "later layers are the better place",
                                    .source = "Figure 5e",
                                    .paper_result = "later below early (bars)"});
    const SignedArm later = Scored(-1, "later-layers", kSmoeExperts);
    Add(builder, "early minus later layers", kGain,
        {Scored(1, "early-layers", kSmoeExperts), later});
    Report(builder, "every second minus later layers",
           {Scored(1, "every-2-layers", kSmoeExperts), later});
    AddCurves(builder, "Training loss, two routed layers",
              {"early-layers", "later-layers", "every-2-layers"});
    return builder.Finish();
  }

  Claim SavesTime() const {
    ClaimBuilder builder = Builder({.number = 10,
                                    .name = "it trains faster than a dense model with dropout",
                                    .source = "Table 1",
                                    .paper_result = "0.91 to 0.98 of the time of a step"});
    builder.AddStatistic("dense-dropout minus SMoE-Dropout", "log of the seconds of a step",
                         kFaster, {Scored(1, "dense-dropout", 0), Method()}, LogStepSeconds);
    builder.AddNote("Runs that share cores with other programs do not measure this.");
    return builder.Finish();
  }

  Claim OverfitsLess() const {
    ClaimBuilder builder = Builder({.number = 12,
                                    .name = "deep models overfit less",
                                    .source = "Figures 5a and 5b",
                                    .paper_result = "the learned gate gets worse at 12 layers"});
    for (const char* name : {"learned", "dense"}) {
      builder.AddStatistic(absl::StrCat("gap of ", name, " minus that of SMoE-Dropout, 8 layers"),
                           kLossUnit, kSmallerGap,
                           {Scored(1, absl::StrCat(name, "-depth-8"), 0), Method("-depth-8")},
                           Overfitting);
    }
    builder.AddNote("The gap is the held-out loss minus the training loss of the last tenth.");
    return builder.Finish();
  }

 private:
  ClaimBuilder Builder(Claim claim) const { return {evidence_, settings_, std::move(claim)}; }

  static void Add(ClaimBuilder& builder, const std::string& name, std::optional<VerdictRule> rule,
                  std::vector<SignedArm> arms) {
    builder.AddHeldout(name, rule, {.arms = std::move(arms)});
  }
  static void Report(ClaimBuilder& builder, const std::string& name, std::vector<SignedArm> arms) {
    Add(builder, name, std::nullopt, std::move(arms));
  }

  // Adds the advantage over dropout with 16 experts of 64 units minus that with fewer.
  static void AddDropoutGap(ClaimBuilder& builder, std::optional<VerdictRule> rule, int experts) {
    const std::string suffix = absl::StrCat("-ffn-", 64 * experts);
    Add(builder,
        absl::StrCat("dense-dropout minus SMoE-Dropout, ", kSmoeExperts, " minus ", experts,
                     " experts of 64 units"),
        rule,
        {Scored(1, "dense-dropout", 0), Method(), Scored(-1, "dense-dropout" + suffix, 0),
         Scored(1, kMethod + suffix, experts)});
  }

  void AddCurves(ClaimBuilder& builder, const std::string& figure_name,
                 const std::vector<std::string>& arms) const {
    const SeriesFigure figure = {.name = figure_name, .x_label = "tokens", .y_label = kLossUnit};
    for (const std::string& name : arms) {
      builder.AddSeries(LossCurveOf(evidence_, name, figure, v1::RANDOM));
    }
  }

  void AddBitsNote(ClaimBuilder& builder) const {
    const double bits = BitsPerByte(1, evidence_.scored_texts, kUnscoredPositions);
    if (std::isnan(bits)) return;
    const ScoredText& text = evidence_.scored_texts.at(kUnscoredPositions);
    builder.AddNote(absl::StrCat("1 nat per token is ", FormatFixed(bits, 4),
                                 " bits per byte: the models are scored on ",
                                 WithThousands(text.tokens), " held-out tokens, which are ",
                                 WithThousands(text.bytes), " bytes of text."));
  }

  // Adds the held-out losses in nats per token and, if the size of the text is known, in bits per
  // byte.
  void AddLossesByExperts(ClaimBuilder& builder, const std::string& suffix,
                          const std::vector<std::string>& arms) const {
    const SeriesFigure figure = {.name = "Held-out loss by experts per token" + suffix,
                                 .x_label = "experts per token",
                                 .y_label = kLossUnit};
    std::vector<ClaimSeries> all;
    double highest = 0;
    for (const std::string& name : arms) {
      all.push_back(LossByExperts(evidence_, name, kUnscoredPositions, figure));
      for (const double value : all.back().values) highest = std::max(highest, value);
    }
    for (ClaimSeries& series : all) {
      // The axis of curves leaves out the first values otherwise.
      series.figure.y_max = highest;
      builder.AddSeries(series);
    }
    const double bits = BitsPerByte(1, evidence_.scored_texts, kUnscoredPositions);
    if (std::isnan(bits)) return;
    for (ClaimSeries& series : all) {
      series.figure.name += ", bits per byte";
      series.figure.y_label = "bits per byte";
      series.figure.y_max = bits * highest;
      for (double& value : series.values) value *= bits;
      builder.AddSeries(std::move(series));
    }
  }

  // Loads of arms whose k is constant: with all experts they are equal.
  void AddRouting(ClaimBuilder& builder) const {
    const SeriesFigure cosine = {
        .name = "Cosine of experts, mean over layers", .x_label = "tokens", .y_label = "cosine"};
    const SeriesFigure busiest = {.name = "Load of the busiest expert over the mean, by layer",
                                  .shape = SeriesShape::kBars,
                                  .x_label = "load over mean load"};
    const SeriesFigure starved = {.name = "Experts under a quarter of the mean load, by layer",
                                  .shape = SeriesShape::kBars,
                                  .x_label = "experts"};
    for (const char* name : {kMethod, "random-each-step", "hash", "fixed-k", "learned-half",
                             "learned-growing", "learned", "thor"}) {
      builder.AddSeries(LayerCurveOf(evidence_, name, cosine, [](const v1::LayerRouting& layer) {
        return layer.expert_cosine();
      }));
    }
    for (const auto& [name, gate] : kGatesOfConstantK) {
      builder.AddSeries(LateLayersOf(evidence_, name, busiest, [](const v1::LayerRouting& layer) {
        return layer.busiest_over_mean();
      }));
      builder.AddSeries(LateLayersOf(evidence_, name, starved, [](const v1::LayerRouting& layer) {
        return static_cast<double>(layer.starved_experts());
      }));
    }
    for (const auto& [name, gate] : kGatesOfConstantK) {
      const SeriesFigure map = {.name = absl::StrCat("Share of tokens' choices, ", gate),
                                .shape = SeriesShape::kHeatRow,
                                .x_label = "expert"};
      for (ClaimSeries& row : LoadRowsOf(evidence_, name, map)) builder.AddSeries(std::move(row));
    }
  }

  const Evidence& evidence_;
  const ClaimSettings& settings_;
};

}  // namespace

std::vector<Claim> EvaluateSmoeClaims(const Evidence& evidence, const ClaimSettings& settings) {
  const SmoeClaims claims(evidence, settings);
  return {claims.BestWithAllExperts(),   claims.HalfIsEnough(),   claims.SlimsSmoothly(),
          claims.GrowingIsNeeded(),      claims.FrozenIsBetter(), claims.NeedsCapacity(),
          claims.LaterLayersAreBetter(), claims.SavesTime(),      claims.OverfitsLess()};
}

}  // namespace braid
