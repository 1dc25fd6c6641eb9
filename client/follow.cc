#include "client/follow.h"

#include <chrono>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "braid/v1/pipeline.pb.h"
#include "client/terminal/stage_figures.h"
#include "client/terminal/tables.h"
#include "rpc/grpc_call.h"
#include "rpc/interrupt.h"
#include "rpc/service_patience.h"
#include "runs/pace.h"

namespace braid {
namespace {

// Sends a request until the service answers, as SubmitOnce does. `what` names what is requested,
// and `list` the command that lists it.
template <class Answer>
absl::StatusOr<Answer> SendOnce(const std::string& request_id, const char* what, const char* list,
                                ProgressBoard& board, std::chrono::milliseconds patience,
                                const std::function<absl::StatusOr<Answer>()>& send) {
  ServicePatience service(patience);
  while (true) {
    absl::StatusOr<Answer> answer = send();
    const bool was_lost = service.is_lost();
    const bool waits = service.Waits(answer.status());
    if (!service.is_lost()) return answer;
    if (!waits || request_id.empty() || Interrupted()) {
      return absl::Status(answer.status().code(),
                          absl::StrCat(answer.status().message(), "; the ", what,
                                       " may have been accepted; see: braid ", list));
    }
    if (!was_lost) board.Note(what, kServiceAwayText);
    std::this_thread::sleep_for(kReconnectPause);
  }
}

// Shows the events of a job, one row for each stage.
class JobRows {
 public:
  JobRows(std::string id, ProgressBoard& board) : id_(std::move(id)), board_(board) {}

  void Show(const v1::JobEvent& event) {
    if (event.has_progress()) {
      ShowStage(event.progress());
    } else if (event.state() == v1::JOB_QUEUED && event.number() > 1) {
      board_.Note(id_, event.message());  // why there is another attempt
    }
  }

 private:
  void ShowStage(const v1::StageProgress& stage) {
    if (std::exchange(waiting_, stage.waiting()) != stage.waiting() && !waiting_.empty()) {
      board_.Note(stage.stage(), waiting_);
    }
    if (stage.complete()) {
      const bool is_new = finished_.insert(stage.stage()).second;
      if (!stage.reused()) {
        board_.Finish(stage.stage(), absl::StrCat("done in ", FormatClock(stage.seconds()), "  ",
                                                  StageFigures(stage)));
      } else if (is_new) {  // every attempt reports the stages of those before
        board_.Finish(stage.stage(), "reused");
      }
      if (is_new) NoteAll(stage);
      return;
    }
    Progress progress;
    progress.done = stage.done();
    progress.total = stage.total();
    progress.unit = stage.unit();
    progress.detail = StageFigures(stage);
    progress.rate = 0;  // StageFigures includes the rate
    board_.Update(stage.stage(), progress);
  }

  void NoteAll(const v1::StageProgress& stage) {
    for (const std::string& note : stage.notes()) {
      board_.Note(stage.stage(), absl::StrCat("note: ", note));
    }
  }

  const std::string id_;
  ProgressBoard& board_;
  std::string waiting_;  // what the job waited for at the last call
  std::set<std::string> finished_;
};

// Notes which jobs run before the queued job `id`. A process without a server runs the queued jobs
// of its home one after the other, also those that earlier commands left behind.
void NoteJobsAhead(PipelineClient& client, const std::string& id, ProgressBoard& board) {
  constexpr size_t kMaxNamed = 3;
  const absl::StatusOr<v1::Job> own = client.GetJob(id);
  if (!own.ok() || own->state() != v1::JOB_QUEUED) return;
  const absl::StatusOr<v1::ListJobsResponse> jobs = client.ListJobs();
  if (!jobs.ok()) return;  // the note is only informational
  std::vector<std::string> ahead;
  bool is_older = false;  // the newest job is the first of the list and the last of the queue
  for (const v1::Job& job : jobs->jobs()) {
    if (job.id() == id) {
      is_older = true;
    } else if (job.state() == v1::JOB_RUNNING) {
      ahead.insert(ahead.begin(), absl::StrCat(job.id(), " (running)"));
    } else if (job.state() == v1::JOB_QUEUED && is_older) {
      ahead.push_back(absl::StrCat(job.id(), " (queued)"));
    }
  }
  if (ahead.empty()) return;
  board.Note(id, absl::StrCat("waits for ", SomeOf(ahead, kMaxNamed),
                              "; cancel a job that is not needed with: braid cancel ID"));
}

// As FollowRun, with errors as the service returns them.
absl::StatusOr<v1::Run> FollowWithService(TrainingClient& client, const std::string& id,
                                          const std::string& label, ProgressBoard& board) {
  ASSIGN_OR_RETURN(v1::Run run, client.GetRun(id));
  Pace pace;
  const auto show = [&](const v1::RunEvent& event) {
    if (event.has_metrics()) {
      pace.Add(event.metrics());
      const int64_t num_steps = run.spec().num_steps();
      board.Update(label, RunProgress(event.metrics(), num_steps, pace.SecondsLeft(num_steps)));
      if (!event.message().empty()) board.Note(label, event.message());
    }
    return !Interrupted();
  };
  const absl::Status watched =
      client.WatchRun(id, show, 0, [&] { board.Note(label, kServiceAwayText); });
  // Checked first, since an interrupt may end the watch with an error.
  if (Interrupted()) return StoppedWatching(id);
  RETURN_IF_ERROR(watched);
  ASSIGN_OR_RETURN(run, client.GetRun(id));
  if (run.state() == v1::RUN_SUCCEEDED) {
    board.Finish(label, absl::StrFormat("done: %s, loss %.3f, %s tokens/s",
                                        Counted(run.latest().step(), "step"), run.latest().loss(),
                                        CompactCount(run.latest().tokens_per_second())));
  }
  return run;
}

}  // namespace

Progress RunProgress(const v1::StepMetrics& metrics, int64_t num_steps, double eta_seconds) {
  Progress progress;
  progress.done = metrics.step();
  progress.total = num_steps;
  progress.unit = "steps";
  progress.rate = 0;
  if (metrics.step() == 0) return progress;
  progress.rate = metrics.tokens_per_second();
  progress.eta_seconds = eta_seconds;
  progress.detail = absl::StrFormat("loss %.3f  %s tokens/s", metrics.loss(),
                                    CompactCount(metrics.tokens_per_second()));
  return progress;
}

absl::Status StoppedWatching(const std::string& id) {
  const char* const stop = absl::StartsWith(id, "job-") ? "cancel " : "stop ";
  return absl::CancelledError(absl::StrCat("stopped watching; ", id,
                                           " continues; follow it with: braid status ", id,
                                           " --watch; stop it with: braid ", stop, id));
}

absl::Status OutlivingService(const absl::Status& ended, const std::string& id) {
  if (!LostServer(ended)) return ended;
  // Jobs run within braidd; a run has a process of its own.
  const char* const continues =
      absl::StartsWith(id, "job-") ? "continues once braidd is back" : "continues without it";
  return absl::Status(ended.code(),
                      absl::StrCat(ended.message(), "; ", id, " ", continues,
                                   "; follow it with: braid status ", id, " --watch"));
}

absl::StatusOr<v1::Job> FollowJob(PipelineClient& client, const std::string& id,
                                  ProgressBoard& board) {
  JobRows rows(id, board);
  if (client.in_process()) NoteJobsAhead(client, id, board);
  const auto show = [&](const v1::JobEvent& event) {
    rows.Show(event);
    return !Interrupted();
  };
  const absl::Status watched = client.WatchJob(id, show, [&] { board.Note(id, kServiceAwayText); });
  if (Interrupted()) {
    if (!client.in_process()) return StoppedWatching(id);
    return absl::CancelledError(
        absl::StrCat("interrupted; unless another process runs it, resume it with: braid resume ",
                     id, " --wait"));
  }
  absl::StatusOr<v1::Job> job = watched.ok() ? client.GetJob(id) : watched;
  if (job.ok()) return job;
  return OutlivingService(job.status(), id);
}

absl::StatusOr<v1::Run> FollowRun(TrainingClient& client, const std::string& id,
                                  const std::string& label, ProgressBoard& board) {
  absl::StatusOr<v1::Run> run = FollowWithService(client, id, label, board);
  if (run.ok()) return run;
  if (Interrupted()) return StoppedWatching(id);
  return OutlivingService(run.status(), id);
}

absl::StatusOr<v1::Job> SubmitOnce(PipelineClient& client, const v1::SubmitCorpusRequest& request,
                                   ProgressBoard& board, std::chrono::milliseconds patience) {
  return SendOnce<v1::Job>(request.request_id(), "job", "jobs", board, patience,
                           [&] { return client.SubmitCorpus(request); });
}

absl::StatusOr<v1::Run> LaunchOnce(TrainingClient& client, const v1::LaunchRunRequest& request,
                                   ProgressBoard& board, std::chrono::milliseconds patience) {
  return SendOnce<v1::Run>(request.request_id(), "run", "runs", board, patience,
                           [&] { return client.LaunchRun(request); });
}

absl::StatusOr<v1::Job> CompleteJob(PipelineClient& client, const v1::SubmitCorpusRequest& request,
                                    ProgressBoard& board) {
  ASSIGN_OR_RETURN(v1::Job job, SubmitOnce(client, request, board));
  if (job.state() == v1::JOB_FAILED || job.state() == v1::JOB_CANCELLED) {
    ASSIGN_OR_RETURN(job, client.ResumeJob(job.id()));
  }
  if (job.state() != v1::JOB_SUCCEEDED) {
    ASSIGN_OR_RETURN(job, FollowJob(client, job.id(), board));
  }
  RETURN_IF_ERROR(JobOutcome(job));
  return job;
}

std::string OrderText(const v1::Job& job) {
  return absl::StrFormat("%s order: %s, adjacent cosine %.3f",
                         job.spec().order() == v1::SIMILARITY ? "similarity" : "random",
                         Counted(job.result().num_instances(), "instance"),
                         job.result().adjacent_cosine());
}

absl::Status JobOutcome(const v1::Job& job) {
  switch (job.state()) {
    case v1::JOB_SUCCEEDED:
      return absl::OkStatus();
    case v1::JOB_FAILED:
      return absl::AbortedError(absl::StrCat(job.id(), " failed: ", job.error()));
    case v1::JOB_CANCELLED:
      return absl::CancelledError(
          absl::StrCat(job.id(), " was canceled; resume it with: braid resume ", job.id()));
    default:
      return absl::UnavailableError(absl::StrCat(job.id(), " has not ended yet"));
  }
}

absl::Status RunOutcome(const v1::Run& run) {
  switch (run.state()) {
    case v1::RUN_SUCCEEDED:
      return absl::OkStatus();
    case v1::RUN_FAILED:
      return absl::AbortedError(absl::StrCat(run.id(), " failed: ", run.error()));
    case v1::RUN_STOPPED:
      return absl::CancelledError(absl::StrCat(run.id(), " was stopped at step ",
                                               run.latest().step(),
                                               "; resume it with: braid resume ", run.id()));
    default:
      return absl::UnavailableError(absl::StrCat(run.id(), " has not ended yet"));
  }
}

}  // namespace braid
