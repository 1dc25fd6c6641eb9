#include "reproduce/molex/molex_claims.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "reproduce/arm_statistics.h"
#include "reproduce/tuned_experiment.h"

namespace braid {
namespace {

// Smallest differences of interest: 2 % of the time, and 0.01 nats. One number per run, so that one
// seed has no interval.
constexpr VerdictRule kCheap = {EffectRule::kPositive, 0.02, 0};
constexpr VerdictRule kDifferent = {EffectRule::kPositive, 0.01, 0};

SignedArm TunedOn(double sign, const std::string& arm, const std::string& task) {
  return {.sign = sign, .arm = arm, .order = v1::RANDOM, .task = task};
}

// Returns the divergence of the choices of two models, in the mean over layers; NOT_FOUND if they
// were not counted.
absl::StatusOr<double> DivergenceOf(const ArmResult& a, const ArmResult& b) {
  const size_t num_layers = a.layer_choices.size();
  if (num_layers == 0 || b.layer_choices.size() != num_layers) {
    return absl::NotFoundError("the choices of layers were not counted");
  }
  double sum = 0;
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const std::vector<double> both[] = {a.layer_choices[layer], b.layer_choices[layer]};
    sum += JensenShannonDivergence(both);
  }
  return sum / static_cast<double>(num_layers);
}

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
    ReportSearch({kMolex, "two-layers", "probability"}, builder);
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
    builder.AddAnswers("plain minus molex, tuned on equations of mawps, on svamp and asdiv",
                       kAnswerGain, AnswerDifference(kPlainTuning, kMolex, OtherEquations()));
    builder.AddAnswers("plain minus molex, tuned on yelp, on sst2 and amazon", kAnswerGain,
                       AnswerDifference(kPlainTuning, kMolex, OtherReviews()));
    return builder.Finish();
  }

  Claim GeneratesBetter() const {
    ClaimBuilder builder = Builder({.number = 3,
                                    .name = "it generates better texts",
                                    .source = "E2E, GPT-2 medium",
                                    .paper_result = "BLEU 70.0 to 70.7, METEOR 46.8 to 46.5"});
    builder.AddAnswers("plain minus molex, e2e", kAnswerGain,
                       AnswerDifference(kPlainTuning, kMolex, {{kTextTask, kTextTask}}));
    ReportTexts(kMolex, builder);
    return builder.Finish();
  }

  Claim IsRobust() const {
    ClaimBuilder builder = Builder({.number = 5,
                                    .name = "noise harms it less",
                                    .source = "noise on the input of unknown size",
                                    .paper_result = "QNLI 63.1 to 64.0, SST-2 69.3 to 70.9"});
    for (const double noise : kEmbeddingNoises) {
      const std::string noisy = NoisyScoring(noise);
      builder.AddAnswers(
          absl::StrCat("growth of plain minus that of molex, noise ", noise), kAnswerGain,
          {.arms =
               {{+1, kPlainTuning, noisy}, {-1, kPlainTuning}, {-1, kMolex, noisy}, {+1, kMolex}},
           .tasks = OwnTasks()});
    }
    return builder.Finish();
  }

  Claim CostsLittle() const {
    ClaimBuilder builder = Builder({.number = 7,
                                    .name = "a step takes at most 1.2 times as long",
                                    .source = "Llama-3.2-1B on GPUs",
                                    .paper_result = "an epoch of 4:59 becomes one of 6:00"});
    const std::vector<SignedArm> arms = {TunedOn(+1, kPlainTuning, OwnTasks().front().asked),
                                         TunedOn(-1, kMolex, OwnTasks().front().asked)};
    builder.AddStatistic("log of 1.2 times plain minus molex", "log of the seconds of a step",
                         kCheap, arms, [](const ArmResult& result) {
                           std::optional<double> seconds = LogStepSeconds(result);
                           if (seconds && result.arm == kPlainTuning) *seconds += std::log(1.2);
                           return seconds;
                         });
    builder.AddStatistic("log of plain minus molex, work", "log of the FLOPs of a step, by formula",
                         std::nullopt, arms, LogStepWork);
    builder.AddStatistic("log of plain minus molex, memory", "log of the peak memory of a run",
                         std::nullopt, arms, LogPeakMemory);
    builder.AddNote("Runs that share cores with other programs do not measure times exactly.");
    return builder.Finish();
  }

  Claim ChoicesFitTasks() const {
    ClaimBuilder builder = Builder({.number = 8,
                                    .name = "tasks choose different layers",
                                    .source = "heat maps of GLUE",
                                    .paper_result = "the layers that mix depend on the task"});
    builder.AddPart("divergence between tasks minus that between seeds", "nats", kDifferent,
                    ChoiceDivergence());
    builder.AddNote(
        "Jensen-Shannon divergence of the layers chosen for prompts, mean over layers.");
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

  // Estimates the divergence of the choices of models of the two tasks with the same seed, minus
  // that of one task with two seeds, in the mean over tasks. A run is part of several pairs of
  // seeds, so jackknife pseudo-values of the seeds stand for their mean (Tukey 1958).
  absl::StatusOr<EffectEstimate> ChoiceDivergence() const {
    const std::string first = OwnTasks()[0].asked, second = OwnTasks()[1].asked;
    ASSIGN_OR_RETURN(const auto runs, PairedRuns(evidence_, {TunedOn(+1, kMolex, first),
                                                             TunedOn(-1, kMolex, second)}));
    if (runs.size() < 3) {
      return absl::NotFoundError("seeds are compared in pairs, which needs at least three");
    }
    std::vector<double> tasks, of_pairs(runs.size(), 0.0);  // of_pairs: the sum of a seed's pairs
    double sum = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      ASSIGN_OR_RETURN(tasks.emplace_back(), DivergenceOf(*runs[i][0], *runs[i][1]));
      for (size_t j = 0; j < i; ++j) {
        ASSIGN_OR_RETURN(const double of_first, DivergenceOf(*runs[i][0], *runs[j][0]));
        ASSIGN_OR_RETURN(const double of_second, DivergenceOf(*runs[i][1], *runs[j][1]));
        const double pair = (of_first + of_second) / 2;
        of_pairs[i] += pair, of_pairs[j] += pair, sum += pair;
      }
    }
    const auto n = static_cast<double>(runs.size());
    std::vector<double> by_seed;
    for (size_t i = 0; i < runs.size(); ++i) {
      const double mean = sum / (n * (n - 1) / 2);
      const double without = (sum - of_pairs[i]) / ((n - 1) * (n - 2) / 2);
      by_seed.push_back(tasks[i] - (n * mean - (n - 1) * without));
    }
    return EstimateOverSeeds(by_seed, settings_.bootstrap);
  }

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

std::string NoisyScoring(double noise) { return absl::StrCat("noise-", noise); }

std::vector<Claim> EvaluateMolexClaims(const Evidence& evidence, const ClaimSettings& settings) {
  const MolexClaims claims(evidence, settings);
  return {claims.BeatsPlain(),      claims.GeneratesBetter(),  claims.BeatsPlainElsewhere(),
          claims.IsRobust(),        claims.OneLayerIsEnough(), claims.CostsLittle(),
          claims.ChoicesFitTasks(), claims.BeatsEqualWork()};
}

}  // namespace braid
