#include "control/training_service.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/display_name.h"
#include "base/status_macros.h"
#include "control/launch/launch_lock.h"
#include "control/launch/scheduled_run.h"
#include "control/run_event_source.h"
#include "control/supervision/reattach.h"
#include "control/supervision/run_process.h"
#include "rpc/grpc_caller.h"
#include "rpc/grpc_status.h"
#include "runs/branch.h"
#include "runs/model_path.h"
#include "runs/run_spec.h"
#include "runs/stop_request.h"

namespace braid {
namespace {

// Runs are watched through files, which are polled for growth.
constexpr std::chrono::milliseconds kWatchInterval(25);
// Maximum time that StopRun waits for the end of the run before it returns the current state.
constexpr std::chrono::seconds kStopWait(10);
// Maximum time that ResumeRun waits for the last processes of a run that has ended.
constexpr std::chrono::seconds kEndWait(5);
constexpr std::chrono::milliseconds kStopPoll(100);
// Limits for a page of ListRuns. The limit in bytes keeps it well below gRPC's limit for messages.
constexpr int32_t kMaxPageSize = 1000;
constexpr size_t kMaxPageBytes = size_t{2} << 20;

// Serializes the spec as requested, not as resolved: defaults may be resolved differently when the
// same request is repeated.
std::string SpecBytes(const v1::RunSpec& spec) {
  std::string bytes;
  spec.SerializeToString(&bytes);
  return bytes;
}

absl::Status RequireResumable(const v1::Run& run) {
  if (run.state() == v1::RUN_STOPPED || run.state() == v1::RUN_FAILED) return absl::OkStatus();
  if (run.state() == v1::RUN_SUCCEEDED) {
    return absl::FailedPreconditionError(
        absl::StrCat(run.id(), " has finished; launch a new run to train longer"));
  }
  const std::string why = run.reason().empty() ? "" : absl::StrCat(" (", run.reason(), ")");
  return absl::FailedPreconditionError(
      absl::StrCat(run.id(), run.state() == v1::RUN_QUEUED ? " is queued" : " is running", why,
                   "; stop it first, or watch it with 'braid status ", run.id(), " --watch'"));
}

// Returns the error of a run that a launch recorded and did not write.
absl::Status NeverStored(const std::string& id) {
  return absl::FailedPreconditionError(
      absl::StrCat(id, ": its launch was interrupted before its settings were stored; repeat the ",
                   "launch with the same request_id, or delete the run with: braid delete ", id));
}

// Waits until the processes of the run have exited: a supervisor records the end of the run before
// it exits itself.
void WaitUntilGone(const RunDirectory& run) {
  const auto start = std::chrono::steady_clock::now();
  while (HasLiveProcess(run, UnixTime()) && std::chrono::steady_clock::now() - start < kEndWait) {
    std::this_thread::sleep_for(kWatchInterval);
  }
}

}  // namespace

LauncherPrograms ProgramsOf(const ControlOptions& options) {
  return {.mpirun = options.mpirun,
          .trainer = options.trainer_binary.string(),
          .supervisor = options.supervisor_binary.string(),
          .remote_agent = options.remote_agent};
}

absl::StatusOr<std::unique_ptr<grpc::Service>> MakeTrainingService(const ControlOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<RunStore> store, RunStore::Open(options.home, options.state));
  return std::make_unique<TrainingServiceImpl>(options, std::move(store));
}

TrainingServiceImpl::TrainingServiceImpl(const ControlOptions& options,
                                         std::unique_ptr<RunStore> store)
    : options_(options),
      programs_(ProgramsOf(options)),
      store_(std::move(store)),
      keeper_(store_.get(), [this](const RunDirectory& run) { return Keep(run); }),
      watches_([this](const std::string& id) { return OpenEvents(id); },
               {.poll_interval = kWatchInterval, .max_per_principal = options.max_watches}) {}

RunOwner TrainingServiceImpl::OwnerOf(const grpc::ServerContext& context, int64_t ranks) const {
  return {.principal = PrincipalOf(context),
          .ranks = ranks,
          .max_runs = options_.max_runs,
          .max_ranks = options_.max_ranks};
}

absl::Status TrainingServiceImpl::Keep(const RunDirectory& run) const {
  RETURN_IF_ERROR(EndOverdueJob(run, UnixTime()));
  return EnsureSupervised(options_.supervisor_binary.string(), run).status();
}

// Returns the run that a branch continues, named by id or directory.
absl::StatusOr<RunDirectory> TrainingServiceImpl::BranchSource(const v1::RunSpec& spec) const {
  ASSIGN_OR_RETURN(const BranchPoint point, ParseBranchPoint(spec.branch_from()));
  const absl::StatusOr<RunRecord> record = store_->Get(point.run);
  if (record.ok()) return RunDirectory(record->run_dir);
  if (absl::IsNotFound(record.status()) && IsRunDirectory(point.run)) {
    return RunDirectory(point.run);
  }
  return record.status();
}

// Returns the spec to launch: `asked` itself, or that of the branch which it describes.
absl::StatusOr<v1::RunSpec> TrainingServiceImpl::WithBranch(const v1::RunSpec& asked) const {
  if (asked.branch_from().empty()) return asked;
  ASSIGN_OR_RETURN(const BranchPoint point, ParseBranchPoint(asked.branch_from()));
  ASSIGN_OR_RETURN(const RunDirectory source, BranchSource(asked));
  RETURN_IF_ERROR(FindBranchCheckpoint(source, point.step).status());
  ASSIGN_OR_RETURN(const v1::RunSpec stored, source.ReadSpec());
  ASSIGN_OR_RETURN(const v1::RunSpec resolved, ResolveRunSpec(stored));
  return BranchSpec(resolved, point.step, asked);
}

// Marks everything that the run will read as in use.
absl::StatusOr<std::vector<DirectoryUse>> TrainingServiceImpl::UseInputs(
    const v1::RunSpec& asked) const {
  std::vector<std::string> inputs = {asked.dataset_dir(), asked.init_from()};
  for (const v1::MixtureDataset& entry : asked.datasets()) inputs.push_back(entry.dataset());
  if (!asked.branch_from().empty()) {
    ASSIGN_OR_RETURN(const RunDirectory source, BranchSource(asked));
    inputs.push_back(source.root().string());
  }
  std::vector<DirectoryUse> uses;
  for (const std::string& input : inputs) {
    ASSIGN_OR_RETURN(DirectoryUse use, DirectoryUse::Share(options_.home, input));
    uses.push_back(std::move(use));
  }
  return uses;
}

// Writes what a run has before its first launch.
absl::Status TrainingServiceImpl::WriteFirst(const RunDirectory& run,
                                             const v1::RunSpec& resolved) const {
  RETURN_IF_ERROR(run.WriteSpec(resolved));
  if (!resolved.branch_from().empty()) {
    ASSIGN_OR_RETURN(const BranchPoint point, ParseBranchPoint(resolved.branch_from()));
    ASSIGN_OR_RETURN(const RunDirectory source, BranchSource(resolved));
    ASSIGN_OR_RETURN(const auto checkpoint, FindBranchCheckpoint(source, point.step));
    RETURN_IF_ERROR(CopyBranchCheckpoint(checkpoint, run));
  }
  const std::filesystem::path source =
      std::filesystem::path(resolved.dataset_dir()) / "tokenizer.model";
  ASSIGN_OR_RETURN(const std::string tokenizer, ReadFile(source));
  return WriteFileAtomically(run.tokenizer(), tokenizer);
}

absl::StatusOr<v1::Run> TrainingServiceImpl::Launch(const v1::LaunchRunRequest& request,
                                                    const grpc::ServerContext& context) {
  // First of all: a repeated request returns its run even if the inputs were deleted since.
  const std::string spec = SpecBytes(request.spec());
  ASSIGN_OR_RETURN(const std::optional<RunRecord> known,
                   store_->Find(request.request_id(), spec, PrincipalOf(context)));
  if (known.has_value() && WasStarted(RunDirectory(known->run_dir))) {
    return DescribeRun(*known, UnixTime());
  }
  RETURN_IF_ERROR(CheckDisplayName(request.spec().name()));
  ASSIGN_OR_RETURN(v1::RunSpec asked, WithBranch(request.spec()));
  // An image may hold any program, and it gets the volume of the home.
  if (asked.launch().backend() == v1::KUBERNETES && !MayManage(context, "")) {
    return absl::PermissionDeniedError(
        "launch.backend: KUBERNETES runs an image that the client chooses, so it needs the role "
        "operator");
  }
  const std::string model = SplitReference(asked.init_from()).model;
  const auto start = store_->Get(model);
  if (!start.ok() && !absl::IsNotFound(start.status())) return start.status();
  if (start.ok()) {
    // An average ("@ema") is refused when the spec is resolved.
    const std::string weights = asked.init_from().substr(model.size());
    asked.set_init_from(start->run_dir.string() + weights);
  }
  // The inputs are marked as in use until the run is in the store, where a deletion finds them. If
  // a deletion came first, the check of the spec fails.
  ASSIGN_OR_RETURN(const std::vector<DirectoryUse> uses, UseInputs(asked));
  ASSIGN_OR_RETURN(const v1::RunSpec resolved, ResolveRunSpec(asked));
  // Before the run is in the store, so that a refused launch leaves nothing behind.
  RETURN_IF_ERROR(CheckLaunch(programs_, options_.home, resolved));
  const auto create = [&] {
    return store_->Create(request.request_id(), spec, UnixTime(),
                          OwnerOf(context, resolved.world_size()));
  };
  absl::StatusOr<RunRecord> created = create();
  if (absl::IsResourceExhausted(created.status())) {
    keeper_.Look();  // so that runs that have just ended no longer count
    created = create();
  }
  ASSIGN_OR_RETURN(const RunRecord record, std::move(created));
  const RunDirectory run(record.run_dir);
  // Present when this principal made the request before. If that call was interrupted, it is
  // completed here.
  if (!WasStarted(run)) RETURN_IF_ERROR(Start(record, &resolved, OwnerOf(context, 0)));
  return DescribeRun(record, UnixTime());
}

// The lock is held from the check of the run to its start, so that RunKeeper cannot settle it in
// between.
absl::Status TrainingServiceImpl::Start(const RunRecord& record, const v1::RunSpec* first,
                                        const RunOwner& limits) {
  const RunDirectory run(record.run_dir);
  std::error_code error;
  if (first != nullptr) {
    RETURN_IF_ERROR(MakeDirectories(run.root()));
  } else if (!std::filesystem::exists(run.root(), error)) {
    RETURN_IF_ERROR(store_->Get(record.id).status());  // not deleted in the meantime
    return NeverStored(record.id);
  }
  ASSIGN_OR_RETURN(const FileLock lock, LockLaunch(run));
  RETURN_IF_ERROR(store_->Get(record.id).status());  // not deleted in the meantime
  if (first == nullptr) {
    if (!IsRunDirectory(run.root())) return NeverStored(record.id);
    RETURN_IF_ERROR(RequireResumable(DescribeRun(record, UnixTime())));
  } else {
    // Two concurrent calls with the same request: the other one has launched the run.
    if (WasStarted(run)) return absl::OkStatus();
    RETURN_IF_ERROR(WriteFirst(run, *first));
  }
  // A launch that was interrupted long ago may have been settled before it is completed. The run is
  // marked as active before it starts, so that RunKeeper supervises whatever was started; if this
  // process dies in between, RunKeeper settles the run again.
  ASSIGN_OR_RETURN(RunRecord launch, store_->Get(record.id));
  if (first == nullptr || !launch.active) {
    ASSIGN_OR_RETURN(launch, store_->Relaunch(record.id, limits));
  }
  const absl::Status started = StartLockedRun(programs_, run);
  if (started.ok()) return started;
  // A run that its scheduler refused is not active. RunKeeper handles other errors.
  if (HasEnded(DescribeRun(launch, UnixTime()).state())) store_->Settle(launch).IgnoreError();
  return {started.code(), absl::StrCat(record.id, ": ", started.message())};
}

absl::StatusOr<v1::Run> TrainingServiceImpl::Resume(const std::string& id,
                                                    const grpc::ServerContext& context) {
  ASSIGN_OR_RETURN(const RunRecord ended, store_->Get(id));
  RETURN_IF_ERROR(CheckMayManage(context, id, ended.principal));
  const v1::Run seen = DescribeRun(ended, UnixTime());
  if (!HasEnded(seen.state())) {
    // The supervisor of a run whose processes were killed is restarted, which resumes the run.
    ASSIGN_OR_RETURN(const bool restarted, EnsureSupervised(options_.supervisor_binary.string(),
                                                            RunDirectory(ended.run_dir)));
    if (restarted) return DescribeRun(ended, UnixTime());
  }
  // Before the wait for its processes; Start checks again under the lock.
  RETURN_IF_ERROR(RequireResumable(seen));
  WaitUntilGone(RunDirectory(ended.run_dir));
  absl::Status started = Start(ended, nullptr, OwnerOf(context, 0));
  if (absl::IsResourceExhausted(started)) {
    keeper_.Look();  // so that runs that have just ended no longer count
    started = Start(ended, nullptr, OwnerOf(context, 0));
  }
  RETURN_IF_ERROR(started);
  return DescribeRun(ended, UnixTime());
}

absl::StatusOr<v1::Run> TrainingServiceImpl::Stop(const std::string& id,
                                                  grpc::ServerContext* context) {
  ASSIGN_OR_RETURN(const RunRecord record, store_->Get(id));
  RETURN_IF_ERROR(CheckMayManage(*context, id, record.principal));
  v1::Run run = DescribeRun(record, UnixTime());
  if (HasEnded(run.state())) return run;
  // A run in a queue has no supervisor that could act on stop.json.
  ASSIGN_OR_RETURN(const bool cancelled, CancelQueuedRun(RunDirectory(record.run_dir)));
  if (!cancelled) RETURN_IF_ERROR(RecordStopRequest(RunDirectory(record.run_dir), UnixTime()));
  const auto start = std::chrono::steady_clock::now();
  // Half of the client's deadline, so that it gets an answer in time.
  const std::chrono::nanoseconds allowed = std::min<std::chrono::nanoseconds>(
      kStopWait, (context->deadline() - std::chrono::system_clock::now()) / 2);
  while (!HasEnded(run.state()) && !context->IsCancelled() &&
         std::chrono::steady_clock::now() - start < allowed) {
    std::this_thread::sleep_for(kStopPoll);
    run = DescribeRun(record, UnixTime());
  }
  return run;
}

absl::StatusOr<v1::ListRunsResponse> TrainingServiceImpl::Page(const v1::ListRunsRequest& request) {
  if (request.page_size() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: got ", request.page_size(), ", expected 0 or more"));
  }
  const int32_t size =
      request.page_size() == 0 ? kMaxPageSize : std::min(request.page_size(), kMaxPageSize);
  ASSIGN_OR_RETURN(const auto records, store_->List(request.page_token(), size + 1));
  v1::ListRunsResponse page;
  size_t bytes = 0;
  for (const RunRecord& record : records) {
    if (page.runs_size() == size || bytes > kMaxPageBytes) {
      page.set_next_page_token(page.runs().rbegin()->id());
      break;
    }
    *page.add_runs() = descriptions_.Of(record, UnixTime());
    bytes += page.runs().rbegin()->ByteSizeLong();
  }
  return page;
}

absl::StatusOr<std::unique_ptr<TrainingServiceImpl::Source>> TrainingServiceImpl::OpenEvents(
    const std::string& id) {
  ASSIGN_OR_RETURN(const RunRecord record, store_->Get(id));
  return OpenRunEvents(
      RunDirectory(record.run_dir), [record] { return DescribeRun(record, UnixTime()); },
      [this, id]() -> absl::StatusOr<bool> {
        ASSIGN_OR_RETURN(const RunRecord now, store_->Get(id));
        return !now.active;
      });
}

grpc::Status TrainingServiceImpl::LaunchRun(grpc::ServerContext* context,
                                            const v1::LaunchRunRequest* request,
                                            v1::Run* response) {
  return Reply(Launch(*request, *context), response);
}

grpc::Status TrainingServiceImpl::GetRun(grpc::ServerContext*, const v1::GetRunRequest* request,
                                         v1::Run* response) {
  const absl::StatusOr<RunRecord> record = store_->Get(request->id());
  if (!record.ok()) return ToGrpc(record.status());
  *response = DescribeRun(*record, UnixTime());
  return grpc::Status::OK;
}

grpc::Status TrainingServiceImpl::ListRuns(grpc::ServerContext*, const v1::ListRunsRequest* request,
                                           v1::ListRunsResponse* response) {
  return Reply(Page(*request), response);
}

grpc::ServerWriteReactor<v1::RunEvent>* TrainingServiceImpl::WatchRun(
    grpc::CallbackServerContext* context, const v1::WatchRunRequest* request) {
  return watches_.Watch(context, request->id(), request->after_event());
}

grpc::Status TrainingServiceImpl::StopRun(grpc::ServerContext* context,
                                          const v1::StopRunRequest* request, v1::Run* response) {
  return Reply(Stop(request->id(), context), response);
}

grpc::Status TrainingServiceImpl::ResumeRun(grpc::ServerContext* context,
                                            const v1::ResumeRunRequest* request,
                                            v1::Run* response) {
  return Reply(Resume(request->id(), *context), response);
}

}  // namespace braid
