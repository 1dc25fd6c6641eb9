// The command "reproduce".
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/decontamination_paths.h"
#include "cli/field_flags.h"
#include "cli/finetune_data.h"
#include "cli/launch_options.h"
#include "cli/task_records.h"
#include "client/terminal/terminal_text.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/task_spec.h"
#include "reproduce/emoe/emoe_experiment.h"
#include "reproduce/lory/lory_experiment.h"
#include "reproduce/molex/molex_experiment.h"
#include "reproduce/order/order_experiment.h"
#include "reproduce/reproduction.h"
#include "reproduce/routers/routers_experiment.h"
#include "reproduce/smoe_dropout/smoe_dropout_experiment.h"
#include "runs/launch_config.h"

namespace braid {
namespace {

constexpr int kMaxReproductionSlots = 10'000;

struct ReproduceOptions {
  std::vector<std::string> paths, arms;
  std::string output, hosts, paper = "lory", experiment, tasks;
  bool routers = false, quick = false, full = false, dry_run = false;
  int num_seeds = 0, slots = 0;
  int64_t num_steps = 0;
  std::optional<int64_t> split_bytes;
  FieldFlags fields{"braid.v1.CorpusSpec"};
  ConfigOptions config;
};

// Returns the experiments on papers, the default first.
std::vector<const Experiment*> Papers() {
  return {&LoryExperiment(), &SmoeDropoutExperiment(), &EmoeExperiment(), &MolexExperiment()};
}

// Returns the experiments on questions of the project itself.
std::vector<const Experiment*> Questions() { return {&OrderExperiment()}; }

std::vector<std::string> NamesOf(const std::vector<const Experiment*>& experiments) {
  std::vector<std::string> names;
  for (const Experiment* experiment : experiments) names.push_back(experiment->name);
  return names;
}

const Experiment& ExperimentOf(const ReproduceOptions& options) {
  if (options.routers) return RoutersExperiment();
  const bool question = !options.experiment.empty();
  const std::string& name = question ? options.experiment : options.paper;
  const std::vector<const Experiment*> all = question ? Questions() : Papers();
  return **std::ranges::find(all, name, &Experiment::name);
}

// Returns the hosts to distribute runs to, which are checked as those of a run are.
absl::StatusOr<std::vector<v1::HostSlots>> ReproductionHosts(const ReproduceOptions& options) {
  if (options.hosts.empty()) return std::vector<v1::HostSlots>();
  ASSIGN_OR_RETURN(const std::vector<v1::HostSlots> hosts, ParseHostList(options.hosts));
  v1::RunSpec spec;
  spec.mutable_launch()->mutable_hosts()->Assign(hosts.begin(), hosts.end());
  RETURN_IF_ERROR(ResolveLaunch(&spec));
  if (const int64_t slots = TotalSlots(spec.launch()); slots > kMaxReproductionSlots) {
    return absl::InvalidArgumentError(absl::StrCat("--hosts: got ", slots,
                                                   " slots, expected at most ",
                                                   kMaxReproductionSlots, ", one for each run"));
  }
  return std::vector<v1::HostSlots>(spec.launch().hosts().begin(), spec.launch().hosts().end());
}

absl::StatusOr<ReproductionPlan> PlanOf(const ReproduceOptions& options,
                                        std::span<const v1::HostSlots> hosts) {
  const Experiment& experiment = ExperimentOf(options);
  ReproductionPlan plan = options.full ? FullPlan(experiment) : QuickPlan(experiment);
  if (!options.arms.empty()) {
    ASSIGN_OR_RETURN(plan, WithArms(std::move(plan), options.arms));
  }
  if (options.num_seeds > 0) plan = WithSeeds(std::move(plan), options.num_seeds);
  if (options.num_steps > 0) plan.num_steps = plan.tuning_steps = options.num_steps;
  return hosts.empty() ? plan : OnHosts(std::move(plan), hosts);
}

SlotsByHost SlotsOf(std::span<const v1::HostSlots> hosts) {
  SlotsByHost slots;
  for (const v1::HostSlots& host : hosts) slots[host.host()] = host.slots();
  return slots;
}

// Returns the number of runs to train concurrently on all hosts.
int NumSlots(const ReproduceOptions& options, const SlotsByHost& hosts) {
  if (options.slots > 0) return options.slots;
  int total = 0;
  for (const auto& [host, slots] : hosts) total += slots;
  return total > 0 ? total : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Parts of a CorpusSpec that a user may choose; the experiment sets the others.
constexpr const char* kChosenParts[] = {"ingest", "embedder", "deduplicate", "decontaminate"};

// Returns the chosen parts. InvalidArgument names another one.
absl::StatusOr<v1::CorpusSpec> CorpusOf(const ReproduceOptions& options) {
  v1::CorpusSpec corpus;
  corpus.mutable_ingest()->set_split_bytes(kReproductionDocumentBytes);
  RETURN_IF_ERROR(options.config.Apply(&corpus));
  RETURN_IF_ERROR(options.fields.Apply(&corpus));
  if (options.split_bytes) corpus.mutable_ingest()->set_split_bytes(*options.split_bytes);
  if (corpus.has_decontaminate()) {
    RETURN_IF_ERROR(ExpandTaskPaths(corpus.mutable_decontaminate()->mutable_paths()));
  }
  std::vector<const google::protobuf::FieldDescriptor*> parts;
  v1::CorpusSpec::GetReflection()->ListFields(corpus, &parts);
  for (const google::protobuf::FieldDescriptor* part : parts) {
    const std::string name(part->name());
    if (std::ranges::find(kChosenParts, name) != std::end(kChosenParts)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--set, --config: got ", name,
                                                   ", which the experiment sets; expected ",
                                                   absl::StrJoin(kChosenParts, ", ")));
  }
  return corpus;
}

absl::StatusOr<CorpusSource> SourceOf(const ReproduceOptions& options) {
  CorpusSource source;
  ASSIGN_OR_RETURN(source.corpus, CorpusOf(options));
  for (const std::string& path : options.paths) {
    source.paths.push_back(std::filesystem::absolute(path).lexically_normal().string());
  }
  return source;
}

// Returns the command line that repeats the experiment, for the record.
std::string RepeatCommand(const Session& session, const ReproduceOptions& options) {
  std::vector<std::string> words = {"braid", "reproduce"};
  const auto add = [&](const std::string& name, const std::string& value) {
    words.insert(words.end(), {name, value});
  };
  if (!session.embedded()) add("--server", session.options.server);
  words.insert(words.end(), options.paths.begin(), options.paths.end());
  if (!options.tasks.empty()) add("--tasks", AbsolutePath(options.tasks));
  if (!options.experiment.empty()) add("--experiment", options.experiment);
  if (options.paper != Papers().front()->name) add("--paper", options.paper);
  if (options.routers) words.push_back("--routers");
  words.push_back(options.full ? "--full" : "--quick");
  if (!options.arms.empty()) add("--arms", absl::StrJoin(options.arms, ","));
  if (options.num_seeds > 0) add("--seeds", absl::StrCat(options.num_seeds));
  if (options.num_steps > 0) add("--steps", absl::StrCat(options.num_steps));
  if (!options.config.file.empty()) add("--config", AbsolutePath(options.config.file));
  for (const std::string& assignment : options.config.assignments) add("--set", assignment);
  for (const std::string& assignment : options.fields.Assignments()) add("--set", assignment);
  if (options.split_bytes) add("--split-bytes", absl::StrCat(*options.split_bytes));
  if (!options.hosts.empty()) add("--hosts", options.hosts);
  if (!options.output.empty()) add("--output", AbsolutePath(options.output));
  return ShellText(words);
}

// Returns a directory that is unique to the experiment: its name hashes the command line and the
// absolute paths of the corpus.
std::filesystem::path OutputDirectory(const std::filesystem::path& home,
                                      const ReproductionOptions& options) {
  const std::string experiment =
      absl::StrCat(options.command, "\n", absl::StrJoin(options.source.paths, "\n"));
  return home / "reproductions" /
         absl::StrFormat("%s-%08x", options.plan.name,
                         static_cast<uint32_t>(XXH3_64bits(experiment.data(), experiment.size())));
}

absl::Status CheckRouters(const ReproduceOptions& options) {
  const std::string& paper = Papers().front()->name;
  if (!options.routers || (options.paper == paper && options.experiment.empty())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--routers: cannot be combined with ",
                   options.experiment.empty() ? options.paper : options.experiment,
                   "; it compares the router of --paper ", paper, " with others"));
}

absl::Status CheckPaths(const Session& session, const ReproduceOptions& options) {
  if (!session.embedded() && options.paths.empty()) {
    return absl::InvalidArgumentError(
        "PATH: got none, expected files or directories of the server; the text of this machine is "
        "used only without --server");
  }
  if (std::ranges::find(options.paths, "") != options.paths.end()) {
    return absl::InvalidArgumentError("PATH: got \"\", expected a file or a directory");
  }
  return absl::OkStatus();
}

absl::Status CheckTask(const TunedTask& task, const std::string& tasks_dir) {
  for (const std::string& name : task.trained()) {
    ASSIGN_OR_RETURN(const v1::TaskSpec spec, BuiltinTask(name));
    ASSIGN_OR_RETURN(const RecordSet records, ReadTaskRecords(spec, tasks_dir));
    // Converted models, which all tasks but extra ones are scored with, know the share of the
    // examples that they were trained on only while the model that was converted exists.
    if (task.is_extra || records.sources[0].task_share == 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("task ", name, ": got no training file in ", records.sources[0].path,
                     ", expected one beside the examples it is evaluated on"));
  }
  for (const std::string& further : task.further) {
    ASSIGN_OR_RETURN(const v1::TaskSpec other, BuiltinTask(further));
    RETURN_IF_ERROR(FindExamples(other, tasks_dir).status());
  }
  return absl::OkStatus();
}

// Checks that the files of all tasks are there before anything is trained.
absl::Status CheckTasks(const Session& session, const ReproduceOptions& options,
                        const ReproductionPlan& plan) {
  const Experiment& experiment = *plan.experiment;
  if (experiment.tasks.empty()) {
    if (options.tasks.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--tasks: got ", options.tasks, " with ", experiment.name,
                     ", which has no tasks; leave it out, or choose the paper emoe or molex"));
  }
  if (options.tasks.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tasks: got none, expected the directory of task files, on which models "
                     "are fine-tuned with ",
                     experiment.name));
  }
  if (!session.embedded()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--server: cannot be combined with ", experiment.name,
                     ", which prepares data and models on this machine; run it without --server"));
  }
  for (const TunedTask& task : experiment.tasks) {
    if (std::ranges::find(plan.runs, task.name, &PlannedRun::task) == plan.runs.end()) continue;
    RETURN_IF_ERROR(CheckTask(task, options.tasks));
  }
  return absl::OkStatus();
}

// Returns the preparation of the training examples of a task, all of which are trained on. No
// deletion removes them while the function exists.
PrepareTask TaskPreparation(Session& session, const std::string& tasks_dir) {
  const auto prepared = std::make_shared<std::vector<FinetuneInputs>>();
  return [&session, tasks_dir, prepared](const TunedTask& task,
                                         const std::string& run_id) -> absl::StatusOr<std::string> {
    FinetuneOptions options;
    options.model = run_id;
    for (const std::string& name : task.trained()) {
      options.tasks.push_back(task.share < 1 ? absl::StrCat(name, "=", task.share) : name);
    }
    options.data = {tasks_dir};
    options.validation = 0;
    ASSIGN_OR_RETURN(const FinetuneData data, PlanFinetuneData(session, options));
    ASSIGN_OR_RETURN(FinetuneInputs inputs, StoreFinetuneInputs(session, options, data));
    prepared->push_back(std::move(inputs));
    return prepared->back().dataset.string();
  };
}

absl::Status Reproduce(Session& session, const ReproduceOptions& options,
                       const std::string& version) {
  RETURN_IF_ERROR(CheckRouters(options));
  RETURN_IF_ERROR(CheckPaths(session, options));
  ASSIGN_OR_RETURN(const std::vector<v1::HostSlots> hosts, ReproductionHosts(options));
  ASSIGN_OR_RETURN(ReproductionPlan plan, PlanOf(options, hosts));
  ASSIGN_OR_RETURN(CorpusSource source, SourceOf(options));
  RETURN_IF_ERROR(CheckTasks(session, options, plan));
  ReproductionOptions experiment{
      .plan = std::move(plan),
      .source = std::move(source),
      .tasks_dir = options.tasks.empty() ? "" : AbsolutePath(options.tasks),
      .prepare_task = TaskPreparation(session, options.tasks),
      .slots = NumSlots(options, SlotsOf(hosts)),
      .slots_of_hosts = SlotsOf(hosts),
      .output_dir = options.output,
      .command = RepeatCommand(session, options),
      .version = version};
  if (options.dry_run) return PlanReproduction(session, experiment);
  if (options.output.empty()) {
    experiment.output_dir = OutputDirectory(session.options.home, experiment);
  }
  experiment.output_dir = std::filesystem::absolute(experiment.output_dir).lexically_normal();
  return RunReproduction(session, experiment);
}

void AddPlan(CLI::App* command, ReproduceOptions* options) {
  CLI::Option* paper =
      command->add_option("--paper", options->paper, "Paper whose claims are tested")
          ->check(OneOf(NamesOf(Papers())))
          ->capture_default_str();
  command
      ->add_option("--experiment", options->experiment,
                   "Run this experiment instead of testing a paper")
      ->check(OneOf(NamesOf(Questions())))
      ->excludes(paper);
  command->add_flag("--routers", options->routers,
                    "Compare the router of the paper lory with eight other models instead");
  CLI::Option* quick =
      command->add_flag("--quick", options->quick,
                        "Train one seed (default): for lory about 11 minutes on 2 cores; see "
                        "--dry-run");
  command
      ->add_flag(
          "--full", options->full,
          "Train three seeds, more arms or longer runs: for lory about 97 minutes on 2 cores")
      ->excludes(quick);
  command
      ->add_option("--arms", options->arms,
                   "Train only these arms; claims that need other arms are not measured")
      ->delimiter(',');
  command->add_option("--seeds", options->num_seeds, "Number of seeds")
      ->check(IntegerBetween(1, 100));
  command
      ->add_option("--steps", options->num_steps,
                   "Steps per pretraining run at the smallest batch size, and per fine-tuning run")
      ->check(IntegerBetween(10, 10'000'000));
  command
      ->add_option("--slots", options->slots,
                   "Number of runs to train concurrently, one thread each (default: one per core)")
      ->check(IntegerBetween(1, kMaxReproductionSlots));
  command
      ->add_option("--hosts", options->hosts,
                   "Hosts to distribute runs to, one per slot; they must see this machine's files")
      ->check(NotEmpty("a list of hosts"))
      ->excludes("--slots");
  command->add_flag("--dry-run", options->dry_run,
                    "Check the corpus and print the planned runs and their estimated time");
}

void AddCorpus(CLI::App* command, ReproduceOptions* options) {
  command->add_option(
      "paths", options->paths,
      "Files and directories of text, as for 'braid submit' (default: this machine's text)");
  options->fields.Add(command, "--text-field", "ingest.text_field");
  options->fields.Add(command, "--domain-field", "ingest.domain_field");
  command
      ->add_option("--split-bytes", options->split_bytes,
                   "Cut longer documents at line or paragraph boundaries; 0 keeps documents whole")
      ->default_str(absl::StrCat(kReproductionDocumentBytes))
      ->check(ZeroOrBetween(64, int64_t{1} << 40));
  options->fields.Add(command, "--embedder", "embedder.kind");
  options->fields.Add(command, "--embedder-model", "embedder.model_dir")
      ->transform(AbsolutePathValue());
  options->config.AddTo(command, "CorpusSpec");
  command
      ->add_option("--tasks", options->tasks,
                   "Directory of task files, one folder per task (emoe, molex)")
      ->type_name("DIR");
  command->add_option("-o,--output", options->output,
                      "Directory for reproduction.html and reproduction.json (default: "
                      "HOME/reproductions/...)");
}

}  // namespace

void AddReproduceCommand(CommandLine& program) {
  auto options = std::make_shared<ReproduceOptions>();
  CLI::App* command = program.app.add_subcommand(
      "reproduce", "Test the paper's claims on your text and report which hold");
  AddCorpus(command, options.get());
  AddPlan(command, options.get());
  command->footer(
      "Prepares the corpus, trains the arms of the experiment and judges its claims: lory, ten\n"
      "claims of arXiv 2405.03133; smoe-dropout, nine claims of Sparse MoE as the New Dropout;\n"
      "emoe, twelve claims of arXiv 2310.10908 on fine-tuning; molex, eight of arXiv 2503.11144;\n"
      "order, when similarity order lowers the loss; with --routers, Lory's soft merging against\n"
      "other routers. The protocols in docs/reproduction list the claims and the rule for\n"
      "verdicts. Repeat the command to continue after an interruption.\n\n"
      "Examples:\n"
      "  braid reproduce\n"
      "  braid reproduce corpus/ --dry-run\n"
      "  braid reproduce corpus/ --experiment order --full\n"
      "  braid reproduce corpus/ --embedder contriever --embedder-model models/all-MiniLM-L6-v2\n"
      "  braid reproduce corpus/ --paper lory --routers\n"
      "  braid reproduce corpus/ --paper smoe-dropout --arms smoe-dropout,dense-dropout\n"
      "  braid reproduce corpus/ --paper emoe --tasks downstream/ --quick\n"
      "  braid --server 127.0.0.1:7077 reproduce /data/corpus --full --hosts a:16,b:16\n"
      "  braid reproduce books.jsonl.zst code.jsonl --full --seeds 5");
  command->callback([&program, options] {
    program.action = [&program, options] {
      return Reproduce(program.session, *options, program.app.version());
    };
  });
}

}  // namespace braid
