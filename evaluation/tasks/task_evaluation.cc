#include "evaluation/tasks/task_evaluation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "evaluation/tasks/answer_log.h"
#include "evaluation/tasks/answer_loss.h"
#include "evaluation/tasks/demonstration_set.h"
#include "evaluation/tasks/random_order.h"
#include "evaluation/tasks/task_figures.h"
#include "evaluation/tasks/task_prompt.h"
#include "evaluation/tasks/task_spec.h"

namespace braid {
namespace {

// Version of the prompts and scores; answers of other versions are not reused.
constexpr uint64_t kProtocol = 2;
// Random stream of the order in which examples are selected.
constexpr uint64_t kSampleStream = 0x5A3D1E;

const char* RoutingName(v1::InferenceRouting routing) {
  return routing == v1::PROMPT_ROUTING ? "prompt" : "segment";
}

// Returns the class of each choice of a task; none for a model of tokens.
absl::StatusOr<std::vector<size_t>> ClassesOfChoices(const v1::TaskSpec& spec,
                                                     const std::vector<std::string>& classes) {
  std::vector<size_t> of_choices;
  if (classes.empty()) return of_choices;
  const auto choices = CommonChoices(spec).value_or(std::vector<std::string>());
  for (const std::string& choice : choices) {
    const auto found = std::ranges::find(classes, choice);
    if (found != classes.end()) of_choices.push_back(static_cast<size_t>(found - classes.begin()));
  }
  if (of_choices.size() != classes.size() || of_choices.size() != choices.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "task \"", spec.name(), "\": got ",
        choices.empty() ? "no choices that all examples share"
                        : absl::StrCat("the choices ", absl::StrJoin(choices, ", ")),
        ", expected the classes of the model's label head: ", absl::StrJoin(classes, ", ")));
  }
  return of_choices;
}

// Describes the file for human readers; programs rely on the digest in its name.
std::string Header(const LoadedTask& task, const AskedModel& model,
                   const TaskEvaluationOptions& options) {
  nlohmann::json header = {{"task", task.spec.name()},
                           {"routing", RoutingName(options.routing)},
                           {"shots", ShotsOf(task.spec, options.num_shots)},
                           {"seed", options.seed},
                           {"model", model.identity}};
  if (options.active_experts > 0) header["active_experts"] = options.active_experts;
  return header.dump();
}

bool Fits(const LoadedTask& task, const ExampleAnswer& answer) {
  if (answer.example < 0 || answer.example >= static_cast<int64_t>(task.examples.size())) {
    return false;
  }
  const TaskExample& example = task.examples[static_cast<size_t>(answer.example)];
  return answer.choices.size() == example.continuations.size() &&
         answer.number.has_value() == task.spec.has_number() &&
         std::ranges::all_of(answer.choices, [](const auto& one) { return one.num_tokens > 0; });
}

double MeanShots(const std::vector<ExampleAnswer>& answers) {
  double sum = 0;
  for (const ExampleAnswer& answer : answers) sum += answer.num_shots;
  return answers.empty() ? 0 : sum / static_cast<double>(answers.size());
}

// Returns whether the log has all that is needed of an answer; earlier evaluations may have needed
// less.
bool IsAnswered(const AnswerLog& log, int64_t example, bool needs_reference) {
  const auto answer = log.answers().find(example);
  return answer != log.answers().end() &&
         (!needs_reference || answer->second.reference.has_value());
}

// Returns the answers in the order of their examples.
std::vector<ExampleAnswer> AnswersTo(const std::vector<int64_t>& examples, const AnswerLog& log) {
  std::vector<ExampleAnswer> answers;
  for (const int64_t example : examples) answers.push_back(log.answers().at(example));
  return answers;
}

// Returns the answers to examples all of whose own texts are clean.
std::vector<ExampleAnswer> CleanAnswers(const LoadedTask& task,
                                        const std::vector<ExampleAnswer>& answers,
                                        const std::function<bool(std::string_view)>& is_clean) {
  std::vector<ExampleAnswer> clean;
  for (const ExampleAnswer& answer : answers) {
    const TaskExample& example = task.examples[static_cast<size_t>(answer.example)];
    if (std::ranges::all_of(example.prompts, is_clean) &&
        std::ranges::all_of(example.continuations, is_clean) &&
        std::ranges::all_of(example.references, is_clean)) {
      clean.push_back(answer);
    }
  }
  return clean;
}

void AddCleanMetrics(const LoadedTask& task, const TaskEvaluationOptions& options,
                     const std::vector<ExampleAnswer>& answers, v1::TaskResult* result) {
  if (!options.is_clean) return;
  const std::vector<ExampleAnswer> clean = CleanAnswers(task, answers, options.is_clean);
  result->set_num_clean_examples(static_cast<int64_t>(clean.size()));
  if (clean.empty()) return;
  for (v1::TaskMetric& metric : TaskFigures(task, clean)) *result->add_clean_metrics() = metric;
}

void AddExamples(const LoadedTask& task, const std::vector<ExampleAnswer>& answers,
                 v1::TaskResult* result) {
  for (const ExampleAnswer& answer : answers) {
    v1::TaskExample* const example = result->add_examples();
    if (!task.spec.has_number()) example->set_answer_loss(AnswerLoss(task, answer));
    const std::optional<double> score = ExampleScore(task, answer);
    if (score.has_value()) example->set_score(*score);
  }
}

v1::TaskResult Summarize(const LoadedTask& task, const TaskEvaluationOptions& options,
                         const std::vector<ExampleAnswer>& answers) {
  v1::TaskResult result;
  result.set_task(task.spec.name());
  result.set_routing(options.routing);
  result.set_num_examples(static_cast<int64_t>(answers.size()));
  result.set_num_shots(ShotsOf(task.spec, options.num_shots));
  result.set_mean_shots(MeanShots(answers));
  for (v1::TaskMetric& metric : TaskFigures(task, answers)) *result.add_metrics() = metric;
  AddCleanMetrics(task, options, answers, &result);
  result.set_num_shortened(std::ranges::count_if(answers, &ExampleAnswer::shortened));
  result.set_chance(ChanceLevel(task, answers));
  if (options.want_examples) AddExamples(task, answers, &result);
  return result;
}

// Opens the log with the answers of a model to a task.
absl::StatusOr<std::unique_ptr<AnswerLog>> OpenAnswers(const LoadedTask& task,
                                                       const AskedModel& model,
                                                       const TaskEvaluationOptions& options) {
  return AnswerLog::Open(AnswersPath(task, model, options), Header(task, model, options),
                         [&](const ExampleAnswer& answer) { return Fits(task, answer); });
}

}  // namespace

std::vector<int64_t> SampleExamples(int64_t total, int64_t count) {
  if (count <= 0 || count > total) count = total;
  RandomOrder order(total, kSampleStream);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) indices.push_back(order.Next());
  std::ranges::sort(indices);
  return indices;
}

absl::Status CheckAnswerable(const v1::TaskSpec& spec, const AskedModel& model) {
  if (spec.has_number() == model.predicts_numbers) {
    return ClassesOfChoices(spec, model.classes).status();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "task \"", spec.name(), "\": got answers that ",
      spec.has_number()
          ? "are numbers, expected a model whose label head predicts numbers (braid finetune "
            "--label-head=regression)"
          : "are not numbers, expected a task such as stsb for a label head that predicts "
            "numbers"));
}

absl::Status CheckShots(const AskedModel& model, int num_shots) {
  if (num_shots <= 0 || (model.classes.empty() && !model.predicts_numbers)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "num_shots: got ", num_shots,
      ", expected 0 for a model with a label head, which is trained on prompts alone"));
}

int ShotsOf(const v1::TaskSpec& spec, int num_shots) {
  return num_shots >= 0 ? num_shots : spec.num_shots();
}

uint64_t TaskDigest(const LoadedTask& task) {
  return Mix64(Mix64(kProtocol, task.files_digest), task.spec.SerializeAsString());
}

std::filesystem::path AnswersPath(const LoadedTask& task, const AskedModel& model,
                                  const TaskEvaluationOptions& options) {
  uint64_t digest = Mix64(TaskDigest(task), model.identity);
  digest = Mix64(Mix64(digest, static_cast<uint64_t>(ShotsOf(task.spec, options.num_shots))),
                 options.seed);
  if (options.active_experts > 0) {
    digest = Mix64(digest, static_cast<uint64_t>(options.active_experts));
  }
  // Earlier versions kept less of such prompts. No number of active experts has this value.
  if (task.spec.has_free() && MaxAnswerTokens(task.spec) > model.context_length / 2) {
    digest = Mix64(digest, ~uint64_t{0});
  }
  return options.answers_dir / absl::StrFormat("%s-%s-%016x.jsonl", task.spec.name(),
                                               RoutingName(options.routing), digest);
}

absl::StatusOr<std::vector<ExampleAnswer>> StoredAnswers(const LoadedTask& task,
                                                         const AskedModel& model,
                                                         const TaskEvaluationOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AnswerLog> log, OpenAnswers(task, model, options));
  const std::vector<int64_t> examples =
      SampleExamples(static_cast<int64_t>(task.examples.size()), options.max_examples);
  for (const int64_t example : examples) {
    if (log->answers().contains(example)) continue;
    return absl::NotFoundError(absl::StrCat("task \"", task.spec.name(), "\": example ", example,
                                            " has no stored answer; evaluate the model again"));
  }
  return AnswersTo(examples, *log);
}

absl::StatusOr<v1::TaskResult> EvaluateTask(const LoadedTask& task, const AskedModel& model,
                                            const TaskEvaluationOptions& options,
                                            const TaskProgress& progress) {
  RETURN_IF_ERROR(CheckAnswerable(task.spec, model));
  RETURN_IF_ERROR(CheckShots(model, options.num_shots));
  ASSIGN_OR_RETURN(std::vector<size_t> classes, ClassesOfChoices(task.spec, model.classes));
  ASSIGN_OR_RETURN(const std::unique_ptr<AnswerLog> log, OpenAnswers(task, model, options));
  const std::vector<int64_t> examples =
      SampleExamples(static_cast<int64_t>(task.examples.size()), options.max_examples);
  const DemonstrationSet shots(task, ShotsOf(task.spec, options.num_shots), options.seed,
                               model.codec);
  const std::unique_ptr<Decoder> unconditional = model.new_decoder(options.routing);
  const std::unique_ptr<Decoder> decoder = model.new_decoder(options.routing);
  const bool needs_reference = NeedsReference(task.spec, options.want_examples);
  const Asking asking = {
      shots,          model.codec,     model.context_length, *decoder,
      *unconditional, needs_reference, std::move(classes),   model.step_together};
  const auto total = static_cast<int64_t>(examples.size());
  const size_t most = MostAnswersTogether(task, asking);
  for (size_t next = 0; next < examples.size();) {
    progress(static_cast<int64_t>(next), total);
    std::vector<int64_t> group;
    for (; next < examples.size() && group.size() < most; ++next) {
      if (!IsAnswered(*log, examples[next], needs_reference)) group.push_back(examples[next]);
    }
    ASSIGN_OR_RETURN(const std::vector<ExampleAnswer> answers, AnswerExamples(task, group, asking));
    for (const ExampleAnswer& answer : answers) RETURN_IF_ERROR(log->Append(answer));
  }
  progress(total, total);
  v1::TaskResult result = Summarize(task, options, AnswersTo(examples, *log));
  result.set_num_damaged_answers(log->num_damaged());
  return result;
}

}  // namespace braid
