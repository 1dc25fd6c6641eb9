// The command "eval tasks".
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/number_text.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/evaluation_flags.h"
#include "cli/user_file.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/source_warning.h"
#include "client/terminal/tasks_table.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/task_spec.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct TasksOptions {
  std::string data, answers, routing = "both";
  std::vector<std::string> models;  // the first is the baseline
  std::vector<int32_t> active_experts;
  std::vector<std::string> tasks, task_files;
  int32_t shots = -1, max_examples = 0, threads = 0;
  uint64_t seed = 0;
  std::optional<uint64_t> routing_seed;
  InputNoiseFlags noise;
  bool list = false, strict = false;
};

// Returns the tasks of --task and --task-file with all their fields; empty without either.
absl::StatusOr<std::vector<v1::TaskSpec>> NamedTasks(const TasksOptions& options) {
  std::vector<v1::TaskSpec> specs;
  for (const std::string& name : options.tasks) {
    ASSIGN_OR_RETURN(v1::TaskSpec spec, BuiltinTask(name));
    specs.push_back(std::move(spec));
  }
  for (const std::string& file : options.task_files) {
    ASSIGN_OR_RETURN(const std::string text, ReadUserFile(file));
    ASSIGN_OR_RETURN(v1::TaskSpec spec, ParseTaskSpec(text, file));
    specs.push_back(std::move(spec));
  }
  return specs;
}

absl::Status List(const Session& session, const TasksOptions& options) {
  std::error_code error;
  // Files of a server cannot be looked up here.
  if (session.embedded() && !options.data.empty() &&
      !std::filesystem::is_directory(options.data, error)) {
    return absl::NotFoundError(absl::StrCat("--data: directory not found: ", options.data,
                                            "; it must contain a folder of files per task"));
  }
  ASSIGN_OR_RETURN(std::vector<v1::TaskSpec> specs, NamedTasks(options));
  if (specs.empty()) {
    ASSIGN_OR_RETURN(specs, BuiltinTasks());
  }
  const std::string data = session.embedded() ? options.data : "";
  if (!session.json) {
    PrintTaskList(specs, data, std::cout);
    return absl::OkStatus();
  }
  nlohmann::json list = nlohmann::json::array();
  for (const v1::TaskSpec& spec : specs) {
    nlohmann::json& one = list.emplace_back(nlohmann::json::parse(ToJson(spec)));
    if (!data.empty()) one["found"] = FindExamples(spec, data).ok();
  }
  std::cout << list.dump(2) << std::endl;
  return absl::OkStatus();
}

absl::StatusOr<v1::EvaluateTasksRequest> MakeRequest(const TasksOptions& options) {
  if (options.models.empty()) {
    return absl::InvalidArgumentError(
        "MODEL: got none, expected a run id, a run directory or a checkpoint directory, or --list");
  }
  if (options.data.empty()) {
    return absl::InvalidArgumentError(
        "--data: got none, expected the directory with one folder of files per task; "
        "--list shows the files");
  }
  v1::EvaluateTasksRequest request;
  ASSIGN_OR_RETURN(const std::vector<v1::TaskSpec> specs, NamedTasks(options));
  request.mutable_tasks()->Assign(specs.begin(), specs.end());
  request.set_model(ModelReference(options.models[0]));
  for (size_t i = 1; i < options.models.size(); ++i) {
    request.add_further_models(ModelReference(options.models[i]));
  }
  request.set_data_dir(AbsolutePath(options.data));
  request.set_answers_dir(AbsolutePath(options.answers));
  if (options.shots >= 0) request.set_num_shots(options.shots);
  if (options.routing == "segment") request.add_routings(v1::SEGMENT_ROUTING);
  if (options.routing == "prompt") request.add_routings(v1::PROMPT_ROUTING);
  request.mutable_active_experts()->Assign(options.active_experts.begin(),
                                           options.active_experts.end());
  if (options.routing_seed.has_value()) request.set_routing_seed(*options.routing_seed);
  request.set_embedding_noise(options.noise.noise);
  request.set_noise_seed(options.noise.seed);
  request.set_max_examples(options.max_examples);
  request.set_seed(options.seed);
  request.set_num_threads(options.threads);
  request.set_strict(options.strict);
  return request;
}

void Show(const v1::EvaluateTasksEvent& event, ProgressBoard& board) {
  if (event.task().empty()) return;
  const char* routing = event.routing() == v1::PROMPT_ROUTING ? "prompt" : "segment";
  const std::string experts =
      event.active_experts() > 0 ? absl::StrCat(" with ", Counted(event.active_experts(), "expert"))
                                 : "";
  board.Update(absl::StrCat(event.task(), " ", routing, experts), ProgressOf(event, "examples"));
}

absl::Status EvalTasks(Session& session, const TasksOptions& options) {
  if (options.list) return List(session, options);
  ASSIGN_OR_RETURN(const v1::EvaluateTasksRequest request, MakeRequest(options));
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  CatchInterrupts();
  absl::StatusOr<v1::TasksResult> result;
  {
    ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
    result = client.EvaluateTasks(request, [&](const auto& event) { Show(event, board); });
  }
  if (Interrupted()) {
    return absl::CancelledError("interrupted; repeat the command to continue");
  }
  RETURN_IF_ERROR(result.status());
  SourceWarning(std::cerr).Show(result->source());
  for (const v1::ModelSource& source : result->further_sources()) {
    SourceWarning(std::cerr).Show(source);
  }
  if (session.json) {
    std::cout << ToPrettyJson(*result) << std::endl;
  } else {
    PrintTasksResult(*result, std::cout);
  }
  return absl::OkStatus();
}

void AddTasks(CLI::App* command, TasksOptions* options) {
  command->add_option("model", options->models,
                      "Run ids, run directories or checkpoint directories; further models are "
                      "compared with the first, example by example");
  AddTaskFiles(command, "--data", &options->data);
  command
      ->add_option("--task", options->tasks,
                   "Built-in task to run; repeatable (default: all tasks whose files exist)")
      ->allow_extra_args(false);
  command
      ->add_option("--task-file", options->task_files,
                   "Task defined in a textproto file; repeatable")
      ->allow_extra_args(false);
  AddStrict(command, &options->strict);
  command->add_flag("--list", options->list, "List the tasks and the files that they read");
}

void AddAsking(CLI::App* command, TasksOptions* options) {
  command
      ->add_option("--shots", options->shots,
                   "Demonstrations per prompt (default: set by each task)")
      ->check(IntegerBetween(0, 256));
  command->add_option("--routing", options->routing, "Routing at inference")
      ->check(OneOf({"segment", "prompt", "both"}))
      ->capture_default_str();
  AddActiveExperts(command, &options->active_experts);
  AddRoutingSeed(command, &options->routing_seed);
  AddInputNoise(command, &options->noise);
  command
      ->add_option("--max-examples", options->max_examples,
                   "Maximum examples per task (default: all)")
      ->check(PositiveInt32());
  command->add_option("--seed", options->seed, "Seed of the choice of demonstrations (default: 0)")
      ->check(Seed());
  AddThreads(command, &options->threads);
  command->add_option(
      "--answers", options->answers,
      "Directory of answers, from which an interrupted evaluation continues (default: "
      "\"tasks\" in the run directory)");
}

}  // namespace

void AddEvalTasks(CommandLine& program, CLI::App* eval) {
  auto options = std::make_shared<TasksOptions>();
  CLI::App* command =
      eval->add_subcommand("tasks", "Run downstream task evaluation with k-shot prompts");
  AddTasks(command, options.get());
  AddAsking(command, options.get());
  ExcludeUnused(command, command->get_option("--list"), {"--data", "--task", "--task-file"});
  command->footer(
      "Examples:\n"
      "  braid eval tasks --list --data downstream/\n"
      "  braid eval tasks run-000002 --data downstream/ --max-examples 200\n"
      "  braid eval tasks run-000002 --data downstream/ --task piqa --shots 5 --routing both\n"
      "  braid eval tasks run-000002 run-000003 --data downstream/ --task sst2\n"
      "  braid eval tasks run-000002 --data my/ --task-file my/capitals.textproto --json");
  command->callback([&program, options] {
    program.action = [&program, options] { return EvalTasks(program.session, *options); };
  });
}

}  // namespace braid
