#include "trainer/evaluation/tasks/task_evaluation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "formats/status_macros.h"
#include "trainer/evaluation/tasks/answer_log.h"
#include "trainer/evaluation/tasks/task_figures.h"
#include "trainer/splitmix.h"

namespace braid {
namespace {

int ShotsOf(const LoadedTask& task, const TaskEvaluationOptions& options) {
  return options.num_shots >= 0 ? options.num_shots : task.spec.num_shots();
}

const char* RoutingName(v1::InferenceRouting routing) {
  return routing == v1::PROMPT_ROUTING ? "prompt" : "segment";
}

// For the people who open the file; the digest in its name is what counts.
std::string Header(const LoadedTask& task, const AskedModel& model,
                   const TaskEvaluationOptions& options) {
  const nlohmann::json header = {{"task", task.spec.name()},
                                 {"routing", RoutingName(options.routing)},
                                 {"shots", ShotsOf(task, options)},
                                 {"seed", options.seed},
                                 {"model", model.identity}};
  return header.dump();
}

// Ascending by example.
std::vector<ExampleAnswer> AnswersTo(const std::vector<int64_t>& examples, const AnswerLog& log) {
  std::vector<ExampleAnswer> answers;
  for (const int64_t example : examples) answers.push_back(log.answers().at(example));
  return answers;
}

v1::TaskResult Summarize(const LoadedTask& task, const TaskEvaluationOptions& options,
                         const std::vector<ExampleAnswer>& answers) {
  v1::TaskResult result;
  result.set_task(task.spec.name());
  result.set_routing(options.routing);
  result.set_num_examples(static_cast<int64_t>(answers.size()));
  result.set_num_shots(ShotsOf(task, options));
  for (v1::TaskMetric& metric : TaskFigures(task, answers)) *result.add_metrics() = metric;
  result.set_num_shortened(std::ranges::count_if(answers, &ExampleAnswer::shortened));
  result.set_chance(ChanceLevel(task, answers));
  return result;
}

}  // namespace

std::vector<int64_t> SpreadExamples(int64_t total, int64_t count) {
  if (count <= 0 || count > total) count = total;
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) indices.push_back(i * total / count);
  return indices;
}

std::filesystem::path AnswersPath(const LoadedTask& task, const AskedModel& model,
                                  const TaskEvaluationOptions& options) {
  uint64_t digest = Mix64(task.files_digest, task.spec.SerializeAsString());
  digest = Mix64(digest, model.identity);
  digest = Mix64(Mix64(digest, static_cast<uint64_t>(ShotsOf(task, options))), options.seed);
  return options.answers_dir / absl::StrFormat("%s-%s-%016x.jsonl", task.spec.name(),
                                               RoutingName(options.routing), digest);
}

absl::StatusOr<v1::TaskResult> EvaluateTask(const LoadedTask& task, const AskedModel& model,
                                            const TaskEvaluationOptions& options,
                                            const TaskProgress& progress) {
  ASSIGN_OR_RETURN(
      const std::unique_ptr<AnswerLog> log,
      AnswerLog::Open(AnswersPath(task, model, options), Header(task, model, options)));
  const std::vector<int64_t> examples =
      SpreadExamples(static_cast<int64_t>(task.examples.size()), options.max_examples);
  const TaskSettings settings = {ShotsOf(task, options), options.seed, model.context_length};
  const std::unique_ptr<Decoder> decoder = model.new_decoder(options.routing);
  const auto total = static_cast<int64_t>(examples.size());
  for (int64_t done = 0; done < total; ++done) {
    progress(done, total);
    const int64_t example = examples[static_cast<size_t>(done)];
    if (log->answers().contains(example)) continue;
    ASSIGN_OR_RETURN(const ExampleAnswer answer,
                     AnswerExample(task, example, settings, model.codec, *decoder));
    RETURN_IF_ERROR(log->Append(answer));
  }
  progress(total, total);
  return Summarize(task, options, AnswersTo(examples, *log));
}

}  // namespace braid
