#include "trainer/control/training_service.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/atomic_file.h"
#include "formats/status_macros.h"
#include "proto/grpc_status.h"
#include "trainer/control/metrics_follower.h"
#include "trainer/control/run_process.h"
#include "trainer/control/scheduled_run.h"
#include "trainer/control/unix_time.h"
#include "trainer/run_spec.h"

namespace braid {
namespace {

constexpr std::chrono::milliseconds kPollInterval(100);
// How long StopRun waits for the run to end before it answers that it has not yet.
constexpr std::chrono::seconds kStopWait(10);
constexpr int64_t kEventsPerRead = 1000;

grpc::Status Answer(absl::StatusOr<v1::Run> run, v1::Run* response) {
  if (!run.ok()) return ToGrpc(run.status());
  *response = *std::move(run);
  return grpc::Status::OK;
}

// The spec as asked for, not as resolved: defaults may be resolved differently when
// the same request comes again.
std::string SpecBytes(const v1::RunSpec& spec) {
  std::string bytes;
  spec.SerializeToString(&bytes);
  return bytes;
}

absl::Status WriteRunDirectory(const RunDirectory& run, const v1::RunSpec& resolved) {
  RETURN_IF_ERROR(run.WriteSpec(resolved));
  const std::filesystem::path source =
      std::filesystem::path(resolved.dataset_dir()) / "tokenizer.model";
  ASSIGN_OR_RETURN(const std::string tokenizer, ReadFile(source));
  return WriteFileAtomically(run.tokenizer(), tokenizer);
}

absl::Status RequireResumable(const v1::Run& run) {
  if (run.state() == v1::RUN_STOPPED || run.state() == v1::RUN_FAILED) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      run.id(), run.state() == v1::RUN_SUCCEEDED
                    ? " has finished; launch a new run to train longer"
                    : " is running; stop it first, or watch it with braid status --watch"));
}

absl::Status Cancelled() { return absl::CancelledError("the client ended the call"); }

}  // namespace

LauncherPrograms ProgramsOf(const ControlOptions& options) {
  return {.mpirun = options.mpirun,
          .trainer = options.trainer_binary.string(),
          .supervisor = options.supervisor_binary.string(),
          .remote_agent = options.remote_agent};
}

absl::StatusOr<std::unique_ptr<grpc::Service>> MakeTrainingService(const ControlOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<RunStore> store, RunStore::Open(options.home));
  return std::make_unique<TrainingServiceImpl>(options, std::move(store));
}

TrainingServiceImpl::TrainingServiceImpl(const ControlOptions& options,
                                         std::unique_ptr<RunStore> store)
    : programs_(ProgramsOf(options)), store_(std::move(store)) {}

absl::StatusOr<v1::Run> TrainingServiceImpl::Launch(const v1::LaunchRunRequest& request) {
  v1::RunSpec asked = request.spec();
  if (const auto start = store_->Get(asked.init_from()); start.ok()) {
    asked.set_init_from(start->run_dir.string());
  }
  ASSIGN_OR_RETURN(const v1::RunSpec resolved, ResolveRunSpec(asked));
  RETURN_IF_ERROR(FindLauncherPrograms(programs_, resolved).status());
  ASSIGN_OR_RETURN(const RunRecord record,
                   store_->Create(request.request_id(), SpecBytes(request.spec()), UnixTime()));
  const RunDirectory run(record.run_dir);
  // Present when the request came before, unless that call died half way: then it is
  // completed here.
  if (!WasStarted(run)) {
    RETURN_IF_ERROR(WriteRunDirectory(run, resolved));
    const absl::Status launched = StartRun(programs_, run);
    // The same request in two calls at once: one of them launched it.
    if (!launched.ok() && !WasStarted(run)) return launched;
  }
  return DescribeRun(record, UnixTime());
}

absl::StatusOr<v1::Run> TrainingServiceImpl::Resume(const std::string& id) {
  ASSIGN_OR_RETURN(const RunRecord record, store_->Get(id));
  RETURN_IF_ERROR(RequireResumable(DescribeRun(record, UnixTime())));
  RETURN_IF_ERROR(StartRun(programs_, RunDirectory(record.run_dir)));
  return DescribeRun(record, UnixTime());
}

absl::StatusOr<v1::Run> TrainingServiceImpl::Stop(const std::string& id,
                                                  grpc::ServerContext* context) {
  ASSIGN_OR_RETURN(const RunRecord record, store_->Get(id));
  v1::Run run = DescribeRun(record, UnixTime());
  if (HasEnded(run.state())) return run;
  ASSIGN_OR_RETURN(const bool cancelled, CancelQueuedRun(RunDirectory(record.run_dir)));
  if (!cancelled) RETURN_IF_ERROR(stopper_.Stop(RunDirectory(record.run_dir)));
  const auto start = std::chrono::steady_clock::now();
  // Half of what the client allows, so that it gets an answer rather than its deadline.
  const std::chrono::nanoseconds allowed = std::min<std::chrono::nanoseconds>(
      kStopWait, (context->deadline() - std::chrono::system_clock::now()) / 2);
  while (!HasEnded(run.state()) && !context->IsCancelled() &&
         std::chrono::steady_clock::now() - start < allowed) {
    std::this_thread::sleep_for(kPollInterval / 4);
    run = DescribeRun(record, UnixTime());
  }
  return run;
}

absl::Status TrainingServiceImpl::Watch(const v1::WatchRunRequest& request,
                                        grpc::ServerContext* context,
                                        grpc::ServerWriter<v1::RunEvent>* writer) {
  ASSIGN_OR_RETURN(const RunRecord record, store_->Get(request.id()));
  MetricsFollower follower(RunDirectory(record.run_dir).metrics(), request.after_event());
  int64_t number = request.after_event();
  while (!context->IsCancelled()) {
    // The state first: the metrics of a run that has ended are then complete.
    v1::Run run = DescribeRun(record, UnixTime());
    ASSIGN_OR_RETURN(const std::vector<v1::RunEvent> events, follower.Next(kEventsPerRead));
    for (const v1::RunEvent& event : events) {
      if (!writer->Write(event)) return Cancelled();
      number = event.number();
    }
    if (!events.empty()) continue;
    if (HasEnded(run.state())) {
      v1::RunEvent last;
      last.set_number(number + 1);
      *last.mutable_final() = std::move(run);
      return writer->Write(last) ? absl::OkStatus() : Cancelled();
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return Cancelled();
}

grpc::Status TrainingServiceImpl::LaunchRun(grpc::ServerContext*,
                                            const v1::LaunchRunRequest* request,
                                            v1::Run* response) {
  return Answer(Launch(*request), response);
}

grpc::Status TrainingServiceImpl::GetRun(grpc::ServerContext*, const v1::GetRunRequest* request,
                                         v1::Run* response) {
  const absl::StatusOr<RunRecord> record = store_->Get(request->id());
  if (!record.ok()) return ToGrpc(record.status());
  *response = DescribeRun(*record, UnixTime());
  return grpc::Status::OK;
}

grpc::Status TrainingServiceImpl::ListRuns(grpc::ServerContext*, const v1::ListRunsRequest*,
                                           v1::ListRunsResponse* response) {
  const absl::StatusOr<std::vector<RunRecord>> records = store_->List();
  if (!records.ok()) return ToGrpc(records.status());
  for (const RunRecord& record : *records) *response->add_runs() = DescribeRun(record, UnixTime());
  return grpc::Status::OK;
}

grpc::Status TrainingServiceImpl::WatchRun(grpc::ServerContext* context,
                                           const v1::WatchRunRequest* request,
                                           grpc::ServerWriter<v1::RunEvent>* writer) {
  return ToGrpc(Watch(*request, context, writer));
}

grpc::Status TrainingServiceImpl::StopRun(grpc::ServerContext* context,
                                          const v1::StopRunRequest* request, v1::Run* response) {
  return Answer(Stop(request->id(), context), response);
}

grpc::Status TrainingServiceImpl::ResumeRun(grpc::ServerContext*,
                                            const v1::ResumeRunRequest* request,
                                            v1::Run* response) {
  return Answer(Resume(request->id()), response);
}

}  // namespace braid
