#include "reproduce/molex/molex_claims.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "reproduce/tuned_experiment.h"

namespace braid {
namespace {

class MolexClaims {
 public:
  MolexClaims(const Evidence& evidence, const ClaimSettings& settings)
      : evidence_(evidence), settings_(settings) {}

  Claim BeatsPlain() const {
    ClaimBuilder builder = Builder({.number = 1,
                                    .name = "mixing layers by a gate is better than plain tuning",
                                    .source = "GLUE, RoBERTa-base and -large",
                                    .paper_result = "85.7 to 86.3, 88.8 to 89.1"});
    Gain(builder, kPlainTuning);
    // Without these two effects the choice of layers does nothing.
    Gain(builder, "frozen-gate");
    Gain(builder, "random-layer");
    Report(builder, "probability");
    Report(builder, "own-layer");
    ReportSingleTasks(kMolex, builder);
    const std::string caution = GuessingCaution(evidence_);
    if (!caution.empty()) builder.AddCaution(caution);
    return builder.Finish();
  }

  Claim BeatsPlainElsewhere() const {
    ClaimBuilder builder =
        Builder({.number = 4,
                 .name = "mixing layers is better on tasks of another origin",
                 .source = "transfer without training between six pairs of tasks",
                 .paper_result = "RTE from QNLI 56.7 to 59.9, and five other pairs"});
    builder.AddAnswers("plain minus molex, tuned on sst2, on amazon and yelp", kAnswerGain,
                       AnswerDifference(kPlainTuning, kMolex, OtherTasks()));
    return builder.Finish();
  }

  Claim OneLayerIsEnough() const {
    ClaimBuilder builder = Builder({.number = 6,
                                    .name = "one chosen layer is as good as two",
                                    .source = "GLUE, K = 2",
                                    .paper_result = "CoLA 64.8 against 63.7, SST-2 95.4 against "
                                                    "95.0"});
    builder.AddAnswers("two-layers minus molex", kAnswerNoWorse,
                       AnswerDifference("two-layers", kMolex));
    return builder.Finish();
  }

  Claim BeatsEqualWork() const {
    ClaimBuilder builder =
        Builder({.number = 11, .name = "mixing layers is better than as much more training"});
    Gain(builder, "more-steps");
    builder.AddNote("A control: a layer that mixes costs as much as two.");
    return builder.Finish();
  }

 private:
  ClaimBuilder Builder(Claim claim) const { return {evidence_, settings_, std::move(claim)}; }

  static void Add(ClaimBuilder& builder, const std::string& other,
                  std::optional<VerdictRule> rule) {
    builder.AddAnswers(absl::StrCat(other, " minus molex"), rule, AnswerDifference(other, kMolex));
  }
  static void Gain(ClaimBuilder& builder, const std::string& other) {
    Add(builder, other, kAnswerGain);
  }
  static void Report(ClaimBuilder& builder, const std::string& other) {
    Add(builder, other, std::nullopt);
  }

  const Evidence& evidence_;
  const ClaimSettings& settings_;
};

}  // namespace

std::vector<Claim> EvaluateMolexClaims(const Evidence& evidence, const ClaimSettings& settings) {
  const MolexClaims claims(evidence, settings);
  return {claims.BeatsPlain(), claims.BeatsPlainElsewhere(), claims.OneLayerIsEnough(),
          claims.BeatsEqualWork()};
}

}  // namespace braid
