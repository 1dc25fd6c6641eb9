#include "reproduce/emoe/emoe_claims.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "reproduce/tuned_experiment.h"

namespace braid {
namespace {

// Smallest share of interest. One number per run, so that one seed has no interval.
constexpr VerdictRule kLargerShare = {EffectRule::kPositive, 0.01, 0};

// Returns the mean over the lower or the upper half of the layers of the share of the activation in
// chosen experts minus that in random groups; nullopt if it was not measured.
std::optional<double> SurplusOf(const ArmResult& result, bool lower) {
  const size_t num_layers = result.expert_mass.size(), half = num_layers / 2;
  if (half == 0) return std::nullopt;
  const size_t begin = lower ? 0 : half, end = lower ? half : num_layers;
  double sum = 0;
  for (size_t layer = begin; layer < end; ++layer) {
    sum += result.expert_mass[layer].chosen - result.expert_mass[layer].random;
  }
  return sum / static_cast<double>(end - begin);
}

class EmoeClaims {
 public:
  EmoeClaims(const Evidence& evidence, const ClaimSettings& settings)
      : evidence_(evidence), settings_(settings) {}

  Claim BeatsPlain() const {
    ClaimBuilder builder = Builder({.number = 1,
                                    .name = "routed tuning is better than plain tuning",
                                    .source = "GLUE",
                                    .paper_result = "+0.74 and +0.84 points with adapters, "
                                                    "+0.62 to +0.92 with all parameters"});
    Gain(builder, "plain minus emoe", kPlainTuning, kEmoe);
    Gain(builder, "plain minus emoe, all parameters trained", "full-plain", "full-emoe");
    ReportSingleTasks(kEmoe, builder);
    ReportSearch(
        {kEmoe, kQuarter, "8-experts", "32-experts", "two-layers", "second-layer", "every-layer"},
        builder);
    ReportTexts(kEmoe, builder);
    const std::string caution = GuessingCaution(evidence_);
    if (!caution.empty()) builder.AddCaution(caution);
    return builder.Finish();
  }

  Claim BeatsPlainElsewhere() const {
    ClaimBuilder builder =
        Builder({.number = 2,
                 .name = "routed tuning is better on tasks of another origin",
                 .source = "GLUE-X",
                 .paper_result = "mean rank 4.37 against 4.86, 3.88 against 5.61"});
    builder.AddAnswers("plain minus emoe, tuned on sst2, on amazon and yelp", kAnswerGain,
                       AnswerDifference(kPlainTuning, kEmoe, OtherTasks()));
    builder.AddAnswers("plain minus emoe, tuned on equations of mawps, on svamp and asdiv",
                       kAnswerGain, AnswerDifference(kPlainTuning, kEmoe, OtherEquations()));
    builder.AddAnswers("plain minus emoe, tuned on yelp, on sst2 and amazon", kAnswerGain,
                       AnswerDifference(kPlainTuning, kEmoe, OtherReviews()));
    return builder.Finish();
  }

  Claim CopiesAreNotNeeded() const {
    ClaimBuilder builder = Builder({.number = 3,
                                    .name = "it is as good as copies of the FFN as experts",
                                    .source = "GLUE, GMoE",
                                    .paper_result = "GMoE +0.18 and +0.73, EMoE +0.74 and +0.84"});
    builder.AddAnswers("copies minus emoe", kAnswerNoWorse, AnswerDifference("copies", kEmoe));
    return builder.Finish();
  }

  Claim KeyMeansAreEnough() const {
    ClaimBuilder builder = Builder({.number = 4,
                                    .name = "the mean of the keys is as good as a learned gate",
                                    .source = "GLUE, EMoE-learn",
                                    .paper_result = "learned +0.02 and +0.77, EMoE +0.74, +0.84"});
    builder.AddAnswers("learned-gate minus emoe", kAnswerNoWorse,
                       AnswerDifference(kLearnedGate, kEmoe));
    std::vector<SignedArm> arms;
    for (const AskedTask& task : OwnTasks()) {
      const double weight = 1.0 / static_cast<double>(OwnTasks().size());
      arms.push_back(
          {.sign = weight, .arm = kLearnedGate, .order = v1::RANDOM, .task = task.asked});
      arms.push_back({.sign = -weight, .arm = kEmoe, .order = v1::RANDOM, .task = task.asked});
    }
    builder.AddStatistic("changed choices, learned-gate minus emoe", "share of the tokens",
                         kLargerShare, arms,
                         [](const ArmResult& result) { return result.changed_choices; });
    builder.AddNote(
        "Choices are changed if a token of held-out text has other experts than before tuning.");
    return builder.Finish();
  }

  Claim ActsInTraining() const {
    ClaimBuilder builder = Builder({.number = 5,
                                    .name = "routing acts in training, not at test",
                                    .source = "Table 16",
                                    .paper_result = "plain 72.12, routed at test 72.14, EMoE "
                                                    "72.96, recomposed 72.96"});
    builder.AddAnswers("emoe recomposed minus routed", kAnswerEqual,
                       {.arms = {{+1, kEmoe, kRecomposed}, {-1, kEmoe}}, .tasks = OwnTasks()});
    builder.AddAnswers(
        "plain routed at test minus plain", kAnswerNoWorse,
        {.arms = {{+1, kPlainTuning, kRoutedAtTest}, {-1, kPlainTuning}}, .tasks = OwnTasks()});
    builder.AddAnswers(
        "plain minus emoe recomposed", std::nullopt,
        {.arms = {{+1, kPlainTuning}, {-1, kEmoe, kRecomposed}}, .tasks = OwnTasks()});
    return builder.Finish();
  }

  Claim ChoiceMatters() const {
    ClaimBuilder builder = Builder({.number = 6,
                                    .name = "it matters which experts are chosen",
                                    .source = "six tasks of GLUE, BERT-Large",
                                    .paper_result = "plain 83.69; top +0.92, not-top -0.20, "
                                                    "bottom -0.48"});
    Gain(builder, "plain minus top-4", kPlainTuning, kQuarter);
    Gain(builder, "not-top-4 minus plain", "not-top-4", kPlainTuning);
    Gain(builder, "bottom-4 minus plain", "bottom-4", kPlainTuning);
    return builder.Finish();
  }

  Claim ClustersMatter() const {
    ClaimBuilder builder = Builder({.number = 7,
                                    .name = "experts have to be clusters of units",
                                    .source = "six tasks of GLUE, BERT-Large",
                                    .paper_result = "contiguous units -0.11, clusters +0.92"});
    Gain(builder, "contiguous minus emoe", "contiguous", kEmoe);
    Gain(builder, "random minus emoe", "random", kEmoe);
    return builder.Finish();
  }

  Claim FewLayers() const {
    ClaimBuilder builder = Builder({.number = 9,
                                    .name = "few layers should have experts",
                                    .source = "GLUE, GPT2-XL",
                                    .paper_result = "plain 78.87, one layer 80.14, every second "
                                                    "layer 78.17"});
    Gain(builder, "every-layer minus emoe", "every-layer", kEmoe);
    for (const std::string arm : {"two-layers", "second-layer"}) {
      builder.AddAnswers(absl::StrCat(arm, " minus emoe"), std::nullopt,
                         AnswerDifference(arm, kEmoe));
    }
    return builder.Finish();
  }

  Claim HelpsWithFewExamples() const {
    ClaimBuilder builder = Builder({.number = 11,
                                    .name = "it helps at every amount of data",
                                    .source = "10 to 100 % of the examples",
                                    .paper_result = "+0.44 to +0.85"});
    for (const int percent : {10, kJointPercent}) {
      std::vector<AskedTask> tasks = OwnTasks();
      for (AskedTask& task : tasks) task.tuned_on = PartialTask(task.tuned_on, percent);
      builder.AddAnswers(absl::StrCat("plain minus emoe, ", percent, " % of the examples"),
                         kAnswerGain, AnswerDifference(kPlainTuning, kEmoe, std::move(tasks)));
    }
    Gain(builder, "plain minus emoe, all examples", kPlainTuning, kEmoe);
    return builder.Finish();
  }

  Claim HelpsTasksTogether() const {
    ClaimBuilder builder = Builder({.number = 12,
                                    .name = "it helps most where tasks are tuned together",
                                    .source = "six tasks of SuperGLUE together, T5-Base",
                                    .paper_result = "65.73 to between 67.98 and 73.29"});
    const auto add = [&](const std::string& name, std::optional<VerdictRule> rule,
                         const std::vector<AskedTask>& tasks) {
      builder.AddAnswers(name, rule,
                         {.arms = {{.sign = +1, .arm = kPlainTuning, .tuned_on = kJointTask},
                                   {.sign = -1, .arm = kEmoe, .tuned_on = kJointTask},
                                   {.sign = -1, .arm = kPlainTuning},
                                   {.sign = +1, .arm = kEmoe}},
                          .tasks = tasks});
    };
    std::vector<AskedTask> tasks = JointTasks();
    add("gain of tasks together minus that of single tasks", kAnswerGain, tasks);
    // The loss of a text is that of some twenty tokens, so it would outweigh those of the others.
    add("the same, e2e", std::nullopt, {{PartialTask(kTextTask, kJointPercent), kTextTask}});
    for (AskedTask& task : tasks) task.tuned_on = kJointTask;
    builder.AddAnswers("plain minus emoe, tasks together", std::nullopt,
                       AnswerDifference(kPlainTuning, kEmoe, std::move(tasks)));
    return builder.Finish();
  }

  Claim UnitsFormGroups() const {
    ClaimBuilder builder = Builder({.number = 14,
                                    .name = "training groups units that are active together",
                                    .source = "SST-2, 16 of 64 experts",
                                    .paper_result = "0.50 of the activation; chance is 0.25"});
    AddSurplus(builder, "surplus of the lower half of the layers, trained minus initial",
               kLargerShare,
               /*lower=*/true);
    AddSurplus(builder, "surplus of the upper half of the layers, trained minus initial",
               std::nullopt, /*lower=*/false);
    builder.AddNote(
        "The surplus of a layer is the share of the activation in the 4 chosen of 16 clusters "
        "minus "
        "that in random groups. Clusters of random keys have one, too.");
    return builder.Finish();
  }

  Claim NotJustDropout() const {
    ClaimBuilder builder =
        Builder({.number = 15, .name = "routing is better than dropout on the hidden units"});
    Gain(builder, "dropout minus emoe", "dropout", kEmoe);
    builder.AddAnswers("plain minus dropout", std::nullopt,
                       AnswerDifference(kPlainTuning, "dropout"));
    builder.AddNote("A control: the released code of EMoE adds dropout to routed layers only.");
    return builder.Finish();
  }

 private:
  ClaimBuilder Builder(Claim claim) const { return {evidence_, settings_, std::move(claim)}; }

  static void Gain(ClaimBuilder& builder, const std::string& name, const std::string& first,
                   const std::string& second) {
    builder.AddAnswers(name, kAnswerGain, AnswerDifference(first, second));
  }

  static void AddSurplus(ClaimBuilder& builder, const std::string& name,
                         std::optional<VerdictRule> rule, bool lower) {
    builder.AddStatistic(name, "share of the activation", rule,
                         {{.sign = +1, .arm = kTrainedBase, .order = v1::RANDOM},
                          {.sign = -1, .arm = kInitialBase, .order = v1::RANDOM}},
                         [lower](const ArmResult& result) { return SurplusOf(result, lower); });
  }

  const Evidence& evidence_;
  const ClaimSettings& settings_;
};

}  // namespace

std::vector<Claim> EvaluateEmoeClaims(const Evidence& evidence, const ClaimSettings& settings) {
  const EmoeClaims claims(evidence, settings);
  return {claims.BeatsPlain(),         claims.BeatsPlainElsewhere(), claims.CopiesAreNotNeeded(),
          claims.KeyMeansAreEnough(),  claims.ActsInTraining(),      claims.ChoiceMatters(),
          claims.ClustersMatter(),     claims.FewLayers(),           claims.HelpsWithFewExamples(),
          claims.HelpsTasksTogether(), claims.UnitsFormGroups(),     claims.NotJustDropout()};
}

}  // namespace braid
