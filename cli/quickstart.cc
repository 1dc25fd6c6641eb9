#include "cli/quickstart.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/number_text.h"
#include "base/staged_output.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "braid/v1/pipeline.pb.h"
#include "cli/quickstart_plan.h"
#include "cli/quickstart_summary.h"
#include "client/follow.h"
#include "client/gathered_corpus.h"
#include "client/repeatable_request_id.h"
#include "client/slot_screen.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/terminal_text.h"
#include "rpc/executable_path.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

constexpr char kSamplePrompt[] = "The following example shows how to";

class Quickstart {
 public:
  Quickstart(Session& session, const QuickstartOptions& options)
      : session_(session), options_(options), board_(std::cerr, IsTerminal(STDERR_FILENO)) {}

  absl::Status Run() {
    const auto started = std::chrono::steady_clock::now();
    std::vector<std::string> paths = options_.paths;
    if (paths.empty()) {
      ASSIGN_OR_RETURN(const std::string corpus, GatherCorpus());
      paths = {corpus};
    }
    for (const v1::OrderMode order : {v1::SIMILARITY, v1::RANDOM}) {
      ASSIGN_OR_RETURN(jobs_[order], SubmitAndFollow(paths, order));
    }
    RETURN_IF_ERROR(TrainAll());
    RETURN_IF_ERROR(CollectAll());
    RETURN_IF_ERROR(WriteSample());
    RETURN_IF_ERROR(WriteReport());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
    summary_ = SummaryJson(options_, jobs_[v1::SIMILARITY], results_, elapsed.count());
    return WriteUserFile(options_.workdir / "summary.json", summary_);
  }

  const std::string& summary() const { return summary_; }

 private:
  absl::StatusOr<std::string> GatherCorpus() {
    const std::filesystem::path corpus = options_.workdir / "corpus.jsonl";
    RETURN_IF_ERROR(GatherOnce({.split_bytes = kQuickstartDocumentBytes}, corpus, board_));
    return corpus.string();
  }

  absl::StatusOr<v1::Job> SubmitAndFollow(const std::vector<std::string>& paths,
                                          v1::OrderMode order) {
    ASSIGN_OR_RETURN(PipelineClient client, session_.Pipeline(/*run_jobs=*/true));
    v1::SubmitCorpusRequest request;
    *request.mutable_spec() = QuickstartCorpus(paths, order);
    request.set_request_id(RepeatableRequestId("quickstart", request.spec()));
    ASSIGN_OR_RETURN(v1::Job job, CompleteJob(client, request, board_));
    board_.Finish(job.id(), OrderText(job));
    return job;
  }

  // Trains as many runs concurrently as there are cores; each uses one thread.
  absl::Status TrainAll() {
    ASSIGN_OR_RETURN(TrainingClient client, session_.Training());
    SlotPlan plan{.slots = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))};
    for (const QuickstartRun& run : QuickstartRuns()) plan.tasks.push_back(TaskOf(run));
    ASSIGN_OR_RETURN(const std::vector<v1::Run> runs, FollowSlots(client, plan, board_));
    for (const v1::Run& run : runs) {
      RETURN_IF_ERROR(RunOutcome(run));
      results_[run.spec().name()].run = run;
    }
    return absl::OkStatus();
  }

  TrainingTask TaskOf(const QuickstartRun& run) {
    TrainingTask task{.request = {},
                      .planned_seconds = 0.1 * static_cast<double>(options_.num_steps)};
    *task.request.mutable_spec() =
        QuickstartRunSpec(run, jobs_[run.order].result().dataset_dir(), options_.num_steps);
    task.request.set_request_id(RepeatableRequestId(run.name(), task.request.spec()));
    return task;
  }

  absl::Status CollectAll() {
    ASSIGN_OR_RETURN(TrainingClient training, session_.Training());
    ASSIGN_OR_RETURN(AnalysisClient analysis, session_.Analysis());
    for (auto& [name, result] : results_) {
      auto& metrics = result.metrics;
      RETURN_IF_ERROR(training.WatchRun(result.run.id(), [&](const v1::RunEvent& event) {
        if (event.has_metrics()) metrics.push_back(event.metrics());
        return true;
      }));
      ASSIGN_OR_RETURN(result.evaluation, Evaluate(analysis, name, result.run.id()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<v1::Evaluation> Evaluate(AnalysisClient& client, const std::string& name,
                                          const std::string& id) {
    const std::string label = "eval " + name;
    v1::EvaluateRequest request;
    request.add_models(id);
    request.set_strict(true);
    // At this size a second thread gains little, and on a busy machine it is slower.
    request.set_num_threads(1);
    ASSIGN_OR_RETURN(const v1::EvaluationResult scored,
                     client.Evaluate(request, [&](const v1::EvaluateEvent& event) {
                       board_.Update(label, ProgressOf(event, "windows"));
                     }));
    const v1::Evaluation& evaluation = scored.evaluations(0);
    board_.Finish(label, absl::StrFormat("held-out perplexity %.2f",
                                         evaluation.total().perplexity_after_first_segment()));
    return evaluation;
  }

  absl::Status WriteSample() {
    ASSIGN_OR_RETURN(GenerationClient client, session_.Generation());
    const v1::Run& run = results_.at("moe-similarity").run;
    v1::GenerateRequest request;
    request.set_model(run.id());
    request.set_prompt(kSamplePrompt);
    request.set_strict(true);
    request.set_temperature(0.8);
    request.set_top_p(0.9);
    std::string text = request.prompt();
    RETURN_IF_ERROR(client.Generate(request, [&](const v1::GenerateEvent& event) {
      text += event.text();
      return true;
    }));
    board_.Finish("sample", Counted(CountCharacters(text), "character"));
    return WriteUserFile(std::filesystem::path(run.run_dir()) / "sample.txt", text);
  }

  absl::Status WriteReport() {
    ASSIGN_OR_RETURN(AnalysisClient client, session_.Analysis());
    v1::ReportRequest request;
    for (const QuickstartRun& run : QuickstartRuns()) {
      request.add_runs(results_.at(run.name()).run.id());
    }
    ASSIGN_OR_RETURN(const v1::ReportResponse response, client.Report(request));
    return WriteUserFile(options_.workdir / "report.html", response.html());
  }

  Session& session_;
  const QuickstartOptions& options_;
  ProgressBoard board_;
  std::map<v1::OrderMode, v1::Job> jobs_;
  QuickstartResults results_;
  std::string summary_;
};

std::string BraidPath() { return SiblingProgram("braid").string(); }

// Returns a command of braid on the jobs and runs of the quickstart.
std::string HomeCommand(const QuickstartOptions& options, const std::vector<std::string>& words) {
  std::vector<std::string> command = {BraidPath(), "--home", (options.workdir / "home").string()};
  command.insert(command.end(), words.begin(), words.end());
  return ShellText(command);
}

// Replaces the error of the job or runs that were followed: its commands are for the default home,
// and resuming the job would not continue the quickstart.
absl::Status InterruptedIn(const QuickstartOptions& options) {
  return absl::CancelledError(
      absl::StrCat("interrupted; repeat the same command to continue; runs that have started are "
                   "not interrupted; list them with: ",
                   HomeCommand(options, {"runs"})));
}

void PrintNextSteps(const QuickstartOptions& options, const std::string& summary,
                    std::ostream& out) {
  out << "\nreport: " << (options.workdir / "report.html").string()
      << "\nsummary: " << (options.workdir / "summary.json").string() << "\n\nTry next:\n"
      << "  " << HomeCommand(options, {"runs"}) << "\n"
      << "  " << HomeCommand(options, {"generate", RunIdOf(summary, "moe-similarity")})
      << " --prompt 'Copyright' --temperature 0.8\n"
      << "  " << ShellText({BraidPath(), "submit"}) << " YOUR_FILES --wait\n";
}

}  // namespace

absl::Status RunQuickstart(Session& session, const QuickstartOptions& options) {
  RETURN_IF_ERROR(MakeDirectories(options.workdir));
  const std::filesystem::path summary = options.workdir / "summary.json";
  std::string json;
  if (std::filesystem::exists(summary) &&
      std::filesystem::exists(options.workdir / "report.html")) {
    ASSIGN_OR_RETURN(json, ReadFile(summary));
    RETURN_IF_ERROR(CheckSameSettings(json, options.workdir, options));
    std::cerr << "quickstart: already complete; remove " << options.workdir.string()
              << " to start again\n";
  } else {
    CatchInterrupts();
    Quickstart quickstart(session, options);
    const absl::Status status = quickstart.Run();
    if (Interrupted() && absl::IsCancelled(status)) return InterruptedIn(options);
    RETURN_IF_ERROR(status);
    json = quickstart.summary();
  }
  if (session.json) {
    std::cout << json;
    return absl::OkStatus();
  }
  std::cout << "\n";
  PrintSummary(json, std::cout);
  PrintNextSteps(options, json, std::cout);
  return absl::OkStatus();
}

}  // namespace braid
