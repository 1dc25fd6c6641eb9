#include "reproduce/tuned_experiment.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "reproduce/setting_search.h"

namespace braid {
namespace {

constexpr char kBaseArm[] = "base";
constexpr char kSentiment[] = "sst2";
constexpr char kProducts[] = "amazon";
constexpr char kEquations[] = "mawps";
constexpr char kOtherEquations[] = "asdiv";
constexpr int64_t kSentimentTokens = 90000;
constexpr int64_t kEquationTokens = 80000;
constexpr int64_t kTopicTokens = 140000;
constexpr int64_t kReviewsTokens = 250000;
constexpr int64_t kTextTokens = 150000;
// Below the loss of guessing between two answers, ln 2, by the smallest gain of interest.
constexpr double kLearned = 0.69315 - kAnswerGain.margin;

ArmDefinition BaseArm() {
  ArmDefinition arm{.name = kBaseArm,
                    .description = "dense model that all tuning runs of its seed start from",
                    .orders = {v1::RANDOM},
                    .tokens_per_second = 5000};
  v1::ModelConfig* const model = arm.settings.mutable_model();
  model->set_num_layers(6);
  model->set_d_model(128);
  model->set_num_heads(4);
  model->set_d_ff(512);
  model->mutable_routing()->set_router(v1::DENSE);
  return arm;
}

std::vector<TunedTask> TunedTasks() {
  std::vector<TunedTask> tasks = {
      {.name = kSentiment, .further = {kProducts, kReviewsTask}, .num_tokens = kSentimentTokens},
      {.name = kEquations, .num_tokens = kEquationTokens},
      {.name = kTopicTask, .is_extra = true, .num_tokens = kTopicTokens},
      {.name = kTextTask, .is_extra = true, .num_tokens = kTextTokens},
      {.name = kNumbersTask,
       .is_extra = true,
       .further = {kOtherEquations},
       .num_tokens = kEquationTokens}};
  const auto add_part = [&](const std::string& name, int percent, int64_t num_tokens) {
    tasks.push_back({.name = PartialTask(name, percent),
                     .parts = {name},
                     .share = percent / 100.0,
                     .is_extra = true,
                     .num_tokens = num_tokens});
    if (name == kReviewsTask) tasks.back().further = {kSentiment, kProducts};
  };
  add_part(kSentiment, 10, kSentimentTokens);
  add_part(kEquations, 10, kEquationTokens);
  TunedTask joint = {.name = kJointTask, .share = kJointPercent / 100.0, .is_extra = true};
  for (const auto& [name, num_tokens] :
       {std::pair(kSentiment, kSentimentTokens), std::pair(kEquations, kEquationTokens),
        std::pair(kTopicTask, kTopicTokens), std::pair(kReviewsTask, kReviewsTokens),
        std::pair(kTextTask, kTextTokens)}) {
    add_part(name, kJointPercent, num_tokens);
    joint.parts.push_back(name);
    joint.num_tokens += num_tokens;
  }
  tasks.push_back(std::move(joint));
  return tasks;
}

// Returns a figure of the texts that the model writes; nullopt if it was not scored.
std::optional<double> MetricOf(const ArmResult& result, const std::string& metric) {
  const TaskScore* const score = FindTaskScore(result, kTextTask, "");
  if (score == nullptr || !score->metrics.contains(metric)) return std::nullopt;
  return score->metrics.at(metric);
}

// Returns the tasks that ReportSingleTasks reports.
std::vector<AskedTask> SingleTasks(const Evidence& evidence, const std::string& arm) {
  std::vector<AskedTask> tasks = OwnTasks();
  for (const AskedTask& extra : {AskedTask{kTopicTask, kTopicTask},
                                 AskedTask{PartialTask(kReviewsTask, kJointPercent), kReviewsTask},
                                 AskedTask{kTextTask, kTextTask}}) {
    if (std::ranges::any_of(evidence.results, [&](const ArmResult& result) {
          return result.arm == arm && result.task == extra.tuned_on;
        })) {
      tasks.push_back(extra);
    }
  }
  return tasks;
}

std::vector<PlannedScore> BaseScores(const PlannedRun& run) {
  if (run.arm.tuning.has_value()) return {};
  return {{.first_positions = kBaseUnscoredPositions}};
}

}  // namespace

std::string PartialTask(const std::string& task, int percent) {
  return absl::StrCat(task, "-", percent, "-percent");
}

Experiment TunedExperiment() {
  Experiment experiment{
      .sequence_length = 256,
      .vocab_size = 4096,
      .tasks = TunedTasks(),
      .main_arm = kBaseArm,
      .datasets = {{.name = kRandomData, .order = v1::RANDOM}},
      .arms = {BaseArm()},
      .quick = {.num_steps = 250, .heldout_windows = 256, .epochs = 2, .max_examples = 100},
      .full = {.num_steps = 2000,
               .heldout_windows = 256,
               .num_seeds = 3,
               .epochs = 3,
               .max_examples = 400},
      .scores = BaseScores,
      .claim_settings = {.segment_length = kBaseUnscoredPositions}};
  experiment.settings.mutable_model()->set_sequence_length(256);
  // Training losses leave out this many positions.
  for (v1::RunSpec* settings : {&experiment.settings, &experiment.tuning_settings}) {
    settings->mutable_model()->mutable_routing()->set_segment_length(kBaseUnscoredPositions);
  }
  experiment.settings.mutable_optimizer()->set_learning_rate(3e-3);
  experiment.settings.mutable_batch()->set_global_batch_size(8);
  experiment.tuning_settings.mutable_optimizer()->set_learning_rate(2e-3);
  experiment.tuning_settings.mutable_batch()->set_global_batch_size(4);
  experiment.tuning_settings.mutable_finetuning();
  return experiment;
}

ArmDefinition AdapterArm(const std::string& name, const std::string& description) {
  ArmDefinition arm{.name = name,
                    .description = description,
                    .orders = {v1::RANDOM},
                    .tuning = FineTuning{.base = kBaseArm},
                    .tokens_per_second = 8000};
  arm.settings.mutable_finetuning()->mutable_lora()->set_rank(8);
  arm.settings.mutable_finetuning()->mutable_lora()->set_alpha(16);
  return arm;
}

std::vector<AskedTask> OwnTasks() { return {{kSentiment, kSentiment}, {kEquations, kEquations}}; }

std::vector<AskedTask> JointTasks() {
  std::vector<AskedTask> tasks;
  for (const char* name : {kSentiment, kEquations, kTopicTask, kReviewsTask}) {
    tasks.push_back({.tuned_on = PartialTask(name, kJointPercent), .asked = name});
  }
  return tasks;
}

std::vector<AskedTask> OtherTasks() {
  return {{kSentiment, kProducts}, {kSentiment, kReviewsTask}};
}

std::vector<AskedTask> OtherEquations() {
  return {{kNumbersTask, kNumbersTask}, {kNumbersTask, kOtherEquations}};
}

std::vector<AskedTask> OtherReviews() {
  const std::string reviews = PartialTask(kReviewsTask, kJointPercent);
  return {{reviews, kSentiment}, {reviews, kProducts}};
}

TaskContrast AnswerDifference(const std::string& first, const std::string& second,
                              std::vector<AskedTask> tasks) {
  return {.arms = {{+1, first}, {-1, second}}, .tasks = std::move(tasks)};
}

void ReportSingleTasks(const std::string& arm, ClaimBuilder& builder) {
  for (const AskedTask& task : SingleTasks(builder.evidence(), arm)) {
    builder.AddAnswers(absl::StrCat("plain minus ", arm, ", ", task.asked), std::nullopt,
                       AnswerDifference(kPlainTuning, arm, {task}));
    if (task.asked == kTextTask) continue;
    TaskContrast figure = AnswerDifference(arm, kPlainTuning, {task});
    figure.measure = TaskMeasure::kFigure;
    builder.AddAnswers(absl::StrCat("right answers of ", arm, " minus plain, ", task.asked),
                       std::nullopt, figure);
  }
}

void ReportTexts(const std::string& arm, ClaimBuilder& builder) {
  const std::vector<SignedArm> arms = {
      {.sign = +1, .arm = arm, .order = v1::RANDOM, .task = kTextTask},
      {.sign = -1, .arm = kPlainTuning, .order = v1::RANDOM, .task = kTextTask}};
  for (const char* metric : {"bleu", "nist", "meteor", "rouge_l", "cider"}) {
    builder.AddStatistic(absl::StrCat(metric, " of ", arm, " minus plain"), metric, std::nullopt,
                         arms,
                         [metric](const ArmResult& result) { return MetricOf(result, metric); });
  }
}

void ReportSearch(const std::vector<std::string>& settings, ClaimBuilder& builder) {
  const absl::StatusOr<SearchedGain> gain = GainOfSearch(
      builder.evidence(), {.plain = kPlainTuning, .settings = settings, .tasks = OwnTasks()},
      builder.settings().bootstrap);
  const auto add = [&](const std::string& chosen_by, EffectEstimate SearchedGain::*estimate) {
    const std::string name = absl::StrCat("right answers of the best of ", settings.size(),
                                          " settings minus plain, chosen by ", chosen_by);
    if (gain.ok()) {
      builder.AddPart(name, kAnswerShareUnit, std::nullopt, (*gain).*estimate);
    } else {
      builder.AddPart(name, kAnswerShareUnit, std::nullopt, gain.status());
    }
  };
  add("the same examples", &SearchedGain::on_same_examples);
  add("other examples", &SearchedGain::on_other_examples);
  if (!gain.ok()) return;
  std::vector<std::string> choices;
  for (size_t i = 0; i < gain->chosen.size(); ++i) {
    choices.push_back(absl::StrCat(gain->chosen[i], " on ", OwnTasks()[i].asked));
  }
  builder.AddNote(absl::StrCat("A search for the most right answers, as papers do it, chooses ",
                               absl::StrJoin(choices, " and "), "."));
}

std::string GuessingCaution(const Evidence& evidence) {
  double sum = 0, count = 0;
  for (const ArmResult& result : evidence.results) {
    const TaskScore* const score = FindTaskScore(result, kSentiment, "");
    if (result.arm != kPlainTuning || result.task != kSentiment || score == nullptr) continue;
    for (const double loss : score->answer_losses) sum += loss;
    count += static_cast<double>(score->answer_losses.size());
  }
  if (count == 0 || sum / count < kLearned) return "";
  return absl::StrCat("Plain tuning is no better than guessing on ", kSentiment, " (",
                      FormatFixed(sum / count, 3),
                      " nats per answer), so comparisons on it say little.");
}

}  // namespace braid
