#include "reproduce/reproduction.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/file_lock.h"
#include "base/path_roots.h"
#include "base/staged_output.h"
#include "base/status_macros.h"
#include "client/follow.h"
#include "client/gathered_corpus.h"
#include "client/slot_screen.h"
#include "client/terminal/progress_board.h"
#include "reproduce/claims_table.h"
#include "reproduce/prepared_corpus.h"
#include "reproduce/reproduction_page.h"
#include "reproduce/reproduction_report.h"
#include "reproduce/run_scorer.h"
#include "reproduce/tuning_plan.h"
#include "rpc/interrupt.h"
#include "runs/run_state.h"

namespace braid {
namespace {

// Bytes of text of this machine for an experiment without a given corpus.
constexpr int64_t kMachineCorpusBytes = int64_t{24} << 20;

// The wall-clock seconds of one experiment, summed over repetitions of the command in a file that
// is rewritten every few seconds.
class ElapsedSeconds {
 public:
  explicit ElapsedSeconds(std::filesystem::path file) : file_(std::move(file)) {
    const absl::StatusOr<std::string> kept = ReadFile(file_);
    if (!kept.ok() || !absl::SimpleAtod(*kept, &before_)) before_ = 0;
    writer_ = std::jthread([this](const std::stop_token& stop) { KeepWriting(stop); });
  }
  ElapsedSeconds(const ElapsedSeconds&) = delete;
  ElapsedSeconds& operator=(const ElapsedSeconds&) = delete;

  double seconds() const {
    return before_ +
           std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }

 private:
  void KeepWriting(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any ended;
    std::unique_lock lock(mutex);
    while (true) {
      ended.wait_for(lock, stop, std::chrono::seconds(5), [] { return false; });
      // Without the file, the reported time is too short.
      WriteUserFile(file_, absl::StrCat(seconds(), "\n")).IgnoreError();
      if (stop.stop_requested()) return;
    }
  }

  const std::filesystem::path file_;
  double before_ = 0;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::jthread writer_;
};

// Returns the name of the file with the seconds of an experiment. A directory may be used for
// several, one after another.
std::string SecondsFile(const std::string& command) {
  return absl::StrFormat("seconds-%08x", Crc32c(command));
}

absl::StatusOr<std::vector<v1::StepMetrics>> MetricsOf(TrainingClient& client,
                                                       const std::string& run_id) {
  std::vector<v1::StepMetrics> metrics;
  RETURN_IF_ERROR(client.WatchRun(run_id, [&](const v1::RunEvent& event) {
    if (event.has_metrics()) metrics.push_back(event.metrics());
    return !Interrupted();
  }));
  if (Interrupted()) return absl::CancelledError("interrupted");
  return metrics;
}

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::cerr << "note: " << PrintableText(note) << "\n";
}

class ExperimentRun {
 public:
  ExperimentRun(Session& session, const ReproductionOptions& options,
                std::optional<CheckedCorpus> corpus)
      : session_(session),
        options_(options),
        plan_(options.plan),
        checked_(std::move(corpus)),
        board_(std::cerr, IsTerminal(STDERR_FILENO)),
        seconds_(options.output_dir / SecondsFile(options.command)) {}

  absl::StatusOr<Reproduction> Run() {
    RETURN_IF_ERROR(Prepare());
    RETURN_IF_ERROR(Train());
    RETURN_IF_ERROR(Collect());
    return Conclude();
  }

  // Returns the runs without a result, with the reasons.
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  absl::Status Prepare() {
    ASSIGN_OR_RETURN(PipelineClient client, session_.Pipeline(/*run_jobs=*/true));
    if (!checked_) {
      const std::filesystem::path corpus = options_.output_dir / "text-of-this-machine.jsonl";
      RETURN_IF_ERROR(GatherOnce({.target_bytes = kMachineCorpusBytes}, corpus, board_));
      CorpusSource source = options_.source;
      source.paths = {corpus.string()};
      ASSIGN_OR_RETURN(checked_, CheckSource(client, plan_, std::move(source), board_));
    }
    PrintNotes(checked_->notes);
    notes_ = checked_->notes;
    ASSIGN_OR_RETURN(corpus_, PrepareDatasets(client, plan_, *checked_, board_));
    PrintNotes(corpus_.notes);
    notes_.insert(notes_.end(), corpus_.notes.begin(), corpus_.notes.end());
    return absl::OkStatus();
  }

  const Experiment& experiment() const { return *plan_.experiment; }
  // The dataset whose held-out text is scored.
  const std::string& ScoredDataset() const {
    return corpus_.dataset_dirs.at(experiment().datasets.front().name);
  }

  // Returns HeldoutScore::dataset for scores on this directory.
  std::string ScoredName(const std::string& directory) const {
    for (const auto& [name, each] : corpus_.dataset_dirs) {
      if (each == directory && directory != ScoredDataset()) return name;
    }
    return "";
  }

  // Fine-tuning runs start once the run whose model they start from has succeeded.
  TrainingTask TaskOf(const PlannedRun& run, TunedRuns& tunings) const {
    TrainingTask task{.request = {}, .planned_seconds = PlannedTrainingSeconds(plan_, run)};
    if (run.arm.tuning.has_value()) {
      *task.request.mutable_spec() = TunedRunSpec(plan_, run, /*init_from=*/"", /*dataset_dir=*/"");
      task.after = BaseRunOf(plan_, run);
      task.request_after = [&](const v1::Run& base) { return tunings.RequestOf(run, base); };
      return task;
    }
    v1::RunSpec& spec = *task.request.mutable_spec();
    spec = PlannedRunSpec(plan_, run, corpus_.dataset_dirs);
    // A validation needs a window of every domain.
    if (const int64_t domains = corpus_.num_heldout_domains;
        spec.validation().has_windows() && spec.validation().windows() < domains) {
      spec.mutable_validation()->set_windows(domains);
    }
    task.request.set_request_id(RunRequestId(plan_, run, corpus_.dataset_dirs));
    return task;
  }

  absl::Status Train() {
    SlotPlan work{.slots = options_.slots, .slots_of_hosts = options_.slots_of_hosts};
    ASSIGN_OR_RETURN(AnalysisClient analysis, session_.Analysis());
    // In the home, as the runs are: their specs name the model that they start from, so a command
    // with another output directory finds them only if the path is the same.
    TunedRuns tunings(
        plan_, std::move(analysis), options_.prepare_task,
        std::filesystem::path(AbsolutePath(session_.options.home)) / "reproductions" / "converted",
        board_);
    double scoring = 0;
    for (const PlannedRun& run : plan_.runs) {
      work.tasks.push_back(TaskOf(run, tunings));
      scoring += PlannedScoringSeconds(plan_, run, checked_->source.num_bytes);
    }
    work.seconds_afterwards = scoring / ScoringThreads(options_.slots);
    ASSIGN_OR_RETURN(TrainingClient client, session_.Training());
    ASSIGN_OR_RETURN(runs_, FollowSlots(client, work, board_));
    return absl::OkStatus();
  }

  // Returns the scorings of the model of a run; none if the run did not succeed.
  ScoringTask ScoringOf(size_t i) const {
    ScoringTask task{.run = runs_[i]};
    if (runs_[i].state() != v1::RUN_SUCCEEDED) return task;
    task.experts = PlannedExpertAnalysis(plan_, plan_.runs[i], runs_[i].id(), ScoredDataset());
    if (plan_.runs[i].arm.tuning.has_value()) {
      task.task_requests =
          PlannedTaskScores(plan_, plan_.runs[i], runs_[i].id(), options_.tasks_dir);
      task.layers = PlannedLayerChoices(plan_, plan_.runs[i], runs_[i].id(), options_.tasks_dir);
      task.tasks_digest = tasks_digests_.at(plan_.runs[i].task);
      return task;
    }
    // All models are scored on the same copy of the held-out text.
    task.requests = PlannedEvaluations(plan_, plan_.runs[i], runs_[i].id(), corpus_.dataset_dirs);
    if (corpus_.num_heldout_domains >= 2) return task;
    for (v1::EvaluateRequest& request : task.requests) {
      auto* weights = request.mutable_fixed_weights();
      weights->erase(std::remove(weights->begin(), weights->end(), v1::NEXT_DOMAIN_WEIGHTS),
                     weights->end());
    }
    return task;
  }

  absl::Status Collect() {
    ASSIGN_OR_RETURN(const AnalysisClient analysis, session_.Analysis());
    for (const PlannedRun& run : plan_.runs) {
      if (!run.arm.tuning.has_value() || tasks_digests_.contains(run.task)) continue;
      ASSIGN_OR_RETURN(tasks_digests_[run.task],
                       DigestOfTask(TaskOfRun(experiment(), run), options_.tasks_dir));
    }
    std::vector<ScoringTask> tasks;
    for (size_t i = 0; i < runs_.size(); ++i) tasks.push_back(ScoringOf(i));
    ASSIGN_OR_RETURN(
        const std::vector<TaskScores> scores,
        ScoreRuns(analysis, tasks, options_.slots, options_.output_dir / "scores", board_));
    ASSIGN_OR_RETURN(TrainingClient training, session_.Training());
    for (size_t i = 0; i < runs_.size(); ++i) {
      RETURN_IF_ERROR(CollectRun(training, i, scores[i]));
    }
    return absl::OkStatus();
  }

  // Returns why a run has no result, or OK.
  absl::Status OutcomeOfRun(size_t i, const TaskScores& scores) const {
    if (runs_[i].id().empty()) {
      return absl::AbortedError("the run whose model it starts from has no result");
    }
    return runs_[i].state() == v1::RUN_SUCCEEDED ? scores.status() : RunOutcome(runs_[i]);
  }

  absl::Status CollectRun(TrainingClient& training, size_t i, const TaskScores& scores) {
    const absl::Status outcome = OutcomeOfRun(i, scores);
    if (!outcome.ok()) {
      const std::string id = runs_[i].id().empty() ? "" : absl::StrCat(" (", runs_[i].id(), ")");
      failures_.push_back(absl::StrCat(plan_.runs[i].name(), id, ": ", outcome.message()));
      return absl::OkStatus();
    }
    const PlannedRun& run = plan_.runs[i];
    ArmResult result{.arm = run.arm.name,
                     .order = run.order,
                     .seed = run.seed,
                     .num_experts = run.arm.num_experts(),
                     .task = run.task,
                     .tasks = scores->tasks,
                     .expert_mass = ExpertMassOf(scores->experts),
                     .changed_choices = ChangedChoicesOf(scores->experts),
                     .layer_choices = LayerChoicesOf(scores->layers)};
    for (const v1::EvaluationResult& evaluations : scores->evaluations) {
      const std::string dataset = ScoredName(evaluations.dataset_dir());
      AddEvaluations(evaluations, dataset, &result);
      if (dataset.empty()) AddScoredTexts(evaluations, &evidence_.scored_texts);
    }
    ASSIGN_OR_RETURN(result.metrics, MetricsOf(training, runs_[i].id()));
    const PlannedScore score =
        run.arm.tuning.has_value() ? PlannedScore() : experiment().scores(run).front();
    reproduced_.push_back(
        ReproducedRunOf(result, run.name(), runs_[i].id(), score, evidence_.scored_texts));
    evidence_.results.push_back(std::move(result));
    return absl::OkStatus();
  }

  // Returns the resolved spec of the main arm.
  v1::RunSpec MainSpec() const {
    const auto run = std::ranges::find(plan_.runs, experiment().main_arm,
                                       [](const PlannedRun& planned) { return planned.arm.name; });
    if (run == plan_.runs.end()) return {};
    return runs_[static_cast<size_t>(run - plan_.runs.begin())].spec();
  }

  Reproduction Conclude() {
    evidence_.domains = corpus_.domains;
    Reproduction reproduction{.experiment = &experiment(),
                              .plan = plan_.name,
                              .command = options_.command,
                              .version = options_.version,
                              .num_steps = plan_.num_steps,
                              .tokens_of_run = plan_.num_tokens_of_run(),
                              .epochs = plan_.epochs,
                              .tuning_steps = plan_.tuning_steps,
                              .corpus_paths = checked_->source.paths,
                              .dataset_dirs = corpus_.dataset_dirs,
                              .heldout_windows = HeldoutWindows(evidence_.results),
                              .spec = MainSpec(),
                              .domains = corpus_.domains,
                              .notes = notes_,
                              .runs = std::move(reproduced_)};
    for (const std::string& failure : failures_) {
      reproduction.notes.push_back(absl::StrCat("run without a result: ", failure));
    }
    reproduction.claims = experiment().claims(evidence_, experiment().claim_settings);
    reproduction.seconds = seconds_.seconds();
    return reproduction;
  }

  Session& session_;
  const ReproductionOptions& options_;
  const ReproductionPlan& plan_;
  std::optional<CheckedCorpus> checked_;
  ProgressBoard board_;
  const ElapsedSeconds seconds_;
  std::vector<std::string> notes_;
  PreparedCorpus corpus_;
  std::map<std::string, std::string> tasks_digests_;  // by TunedTask::name
  // In the order of plan_.runs.
  std::vector<v1::Run> runs_;
  std::vector<std::string> failures_;
  std::vector<ReproducedRun> reproduced_;
  Evidence evidence_;
};

absl::StatusOr<CheckedCorpus> CheckGivenCorpus(Session& session, const ReproductionOptions& options,
                                               bool run_jobs) {
  ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
  ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline(run_jobs));
  return CheckSource(client, options.plan, options.source, board);
}

absl::Status WriteResults(const Session& session, const ReproductionOptions& options,
                          const Reproduction& reproduction) {
  const std::string json = ReproductionJson(reproduction);
  const std::filesystem::path page = options.output_dir / "reproduction.html";
  RETURN_IF_ERROR(WriteUserFile(page, RenderReproduction(reproduction)));
  RETURN_IF_ERROR(WriteUserFile(options.output_dir / "reproduction.json", json));
  if (session.json) {
    std::cout << json << std::flush;
    return absl::OkStatus();
  }
  std::cout << "\n";
  PrintClaims(reproduction.claims, std::cout);
  std::cout << "\npage: " << page.string()
            << "\njson: " << (options.output_dir / "reproduction.json").string() << std::endl;
  return absl::OkStatus();
}

absl::Status OutcomeOf(const std::vector<std::string>& failures, size_t num_runs) {
  if (failures.empty()) return absl::OkStatus();
  return absl::AbortedError(absl::StrFormat(
      "%d of %d runs %s no result, so effects that need them were not measured; repeat the "
      "command to retry them; the first failure: %s",
      static_cast<int>(failures.size()), static_cast<int>(num_runs),
      failures.size() == 1 ? "has" : "have", failures.front()));
}

}  // namespace

absl::Status RunReproduction(Session& session, const ReproductionOptions& options) {
  CatchInterrupts();
  std::optional<CheckedCorpus> given;
  if (!options.source.paths.empty()) {
    // First, so that an unsuitable corpus leaves no directory.
    ASSIGN_OR_RETURN(given, CheckGivenCorpus(session, options, /*run_jobs=*/true));
  }
  RETURN_IF_ERROR(MakeDirectories(options.output_dir));
  ASSIGN_OR_RETURN(const std::optional<FileLock> lock,
                   FileLock::TryTake(options.output_dir / "reproduction.lock"));
  if (!lock) {
    return absl::FailedPreconditionError(absl::StrCat("another 'braid reproduce' is using ",
                                                      options.output_dir.string(),
                                                      "; wait for it, or choose another --output"));
  }
  ExperimentRun experiment(session, options, std::move(given));
  ASSIGN_OR_RETURN(const Reproduction reproduction, experiment.Run());
  RETURN_IF_ERROR(WriteResults(session, options, reproduction));
  return OutcomeOf(experiment.failures(), options.plan.runs.size());
}

absl::Status PlanReproduction(Session& session, const ReproductionOptions& options) {
  int64_t num_bytes = kMachineCorpusBytes;
  std::vector<std::string> notes;
  if (!options.source.paths.empty()) {
    CatchInterrupts();
    ASSIGN_OR_RETURN(const CheckedCorpus corpus,
                     CheckGivenCorpus(session, options, /*run_jobs=*/false));
    num_bytes = corpus.description.num_bytes();
    notes = corpus.notes;
  }
  if (session.json) {
    std::cout << PlanJson(options.plan, options.slots, num_bytes, notes) << std::flush;
    return absl::OkStatus();
  }
  PrintNotes(notes);
  PrintPlan(options.plan, options.slots, num_bytes, std::cout);
  return absl::OkStatus();
}

}  // namespace braid
