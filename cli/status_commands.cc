// The commands "status" and "resume", which accept a job id or a run id.
#include <unistd.h>

#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "client/follow.h"
#include "client/run_screen.h"
#include "client/terminal/tables.h"
#include "proto/state_name.h"
#include "rpc/interrupt.h"
#include "runs/run_state.h"

namespace braid {
namespace {

struct StatusOptions {
  std::string id;
  bool watch = false;
};

absl::Status UnknownKind(const std::string& id) {
  return absl::InvalidArgumentError(absl::StrCat(
      "got id \"", id, "\", expected job-... or run-...; list ids with: braid jobs, braid runs"));
}

absl::Status ShowJob(Session& session, PipelineClient& client, const StatusOptions& options) {
  ASSIGN_OR_RETURN(v1::Job job, client.GetJob(options.id));
  if (options.watch) {
    CatchInterrupts();
    ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
    ASSIGN_OR_RETURN(job, FollowJob(client, options.id, board));
  }
  if (session.json) {
    std::cout << ToPrettyJson(job) << std::endl;
  } else {
    PrintJob(job, std::cout);
  }
  return options.watch ? JobOutcome(job) : absl::OkStatus();
}

// Prints a run. DataLoss, after that, when its settings are damaged.
absl::Status PrintRunAsAsked(const Session& session, const v1::Run& run) {
  if (session.json) {
    std::cout << ToPrettyJson(run) << std::endl;
  } else {
    PrintRun(run, std::cout);
  }
  // Without settings, the reason says why; those of a run that is being launched have none.
  if (run.has_spec() || run.reason().empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(run.id(), ": ", run.reason()));
}

absl::Status WatchRun(const Session& session, TrainingClient& client, const std::string& id) {
  CatchInterrupts();
  if (session.json) {
    ASSIGN_OR_RETURN(const v1::Run run, PrintRunChanges(client, id));
    return RunOutcome(run);
  }
  if (IsTerminal(STDOUT_FILENO)) {
    ASSIGN_OR_RETURN(const v1::Run run, ShowRunOnScreen(client, id));
    return RunOutcome(run);
  }
  ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
  ASSIGN_OR_RETURN(const v1::Run run, FollowRun(client, id, id, board));
  RETURN_IF_ERROR(PrintRunAsAsked(session, run));
  return RunOutcome(run);
}

absl::Status ShowRun(const Session& session, TrainingClient& client, const StatusOptions& options) {
  ASSIGN_OR_RETURN(const v1::Run run, client.GetRun(options.id));
  return options.watch ? WatchRun(session, client, options.id) : PrintRunAsAsked(session, run);
}

absl::Status Status(Session& session, const StatusOptions& options) {
  if (absl::StartsWith(options.id, "job-")) {
    ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline(/*run_jobs=*/options.watch));
    return ShowJob(session, client, options);
  }
  if (!absl::StartsWith(options.id, "run-")) return UnknownKind(options.id);
  ASSIGN_OR_RETURN(TrainingClient client, session.Training());
  return ShowRun(session, client, options);
}

// Resumes a run. One that runs stays as it is: braid itself restarts a run whose processes were
// killed, maybe just before this request.
absl::Status ResumeRun(TrainingClient& client, const std::string& id) {
  const absl::Status resumed = client.ResumeRun(id).status();
  if (!absl::IsFailedPrecondition(resumed)) return resumed;
  ASSIGN_OR_RETURN(const v1::Run run, client.GetRun(id));
  if (HasEnded(run.state())) return resumed;
  std::cerr << id << " is already " << StateName(run.state()) << std::endl;
  return absl::OkStatus();
}

absl::Status Resume(Session& session, const StatusOptions& options) {
  if (absl::StartsWith(options.id, "job-")) {
    ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline(/*run_jobs=*/true));
    RETURN_IF_ERROR(client.ResumeJob(options.id).status());
    StatusOptions follow = options;
    follow.watch = options.watch || session.embedded();
    return ShowJob(session, client, follow);
  }
  if (!absl::StartsWith(options.id, "run-")) return UnknownKind(options.id);
  ASSIGN_OR_RETURN(TrainingClient client, session.Training());
  RETURN_IF_ERROR(ResumeRun(client, options.id));
  return ShowRun(session, client, options);
}

}  // namespace

void AddStatusCommands(CommandLine& program) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* status = program.app.add_subcommand("status", "Show the status of a job or a run");
  status->add_option("id", options->id, "Job or run id")->required();
  status->add_flag("--watch", options->watch, "Follow the job or run until it ends");
  status->footer(
      "Examples:\n  braid status run-000001 --watch\n"
      "  braid --json status run-000001 --watch   # one JSON object per change");
  status->callback([&program, options] {
    program.action = [&program, options] { return Status(program.session, *options); };
  });

  CLI::App* resume =
      program.app.add_subcommand("resume", "Resume a stopped, canceled or failed job or run");
  resume->add_option("id", options->id, "Job or run id")->required();
  resume->add_flag("--wait", options->watch,
                   "Follow the job or run until it ends (a job: always, without --server)");
  resume->footer("Example:\n  braid resume run-000001 --wait");
  resume->callback([&program, options] {
    program.action = [&program, options] { return Resume(program.session, *options); };
  });
}

}  // namespace braid
