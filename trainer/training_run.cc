#include "trainer/training_run.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/blas_core.h"
#include "base/clock.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "model/matrix_product_peak.h"
#include "runs/conversion_record.h"
#include "runs/metrics_export/tensorboard_log.h"
#include "runs/run_fence.h"
#include "runs/run_spec.h"
#include "runs/stop_request.h"
#include "trainer/training_loop.h"

namespace braid {
namespace {

// Returns a clock in Unix seconds that never steps back: the wall clock is read once.
std::function<double()> SteadyUnixClock() {
  const double offset = UnixTime() - SteadySeconds();
  return [offset] { return offset + SteadySeconds(); };
}

struct Ending {
  absl::StatusOr<TrainingOutcome> outcome = absl::UnknownError("not run");
  int64_t step = 0;
};

void PrintSpec(const v1::RunSpec& spec) {
  std::cout << "resolved configuration:\n" << spec.DebugString() << std::flush;
}

// Prints the matrix kernels in use, and warns if an earlier attempt at the run used others: its
// results up to here cannot be reproduced bit for bit with these.
void ReportBlasCore(const RunDirectory& directory) {
  const std::string core = BlasCoreName();
  std::cout << "BLAS kernels: " << (core.empty() ? "not OpenBLAS" : core) << std::endl;
  for (const v1::Heartbeat& earlier : directory.ReadHeartbeats()) {
    if (earlier.rank() != 0 || earlier.blas_core().empty() || earlier.blas_core() == core) continue;
    std::cerr << "warning: an earlier attempt used BLAS kernels " << earlier.blas_core()
              << ", this one uses " << core
              << ": the last digits of results will differ; set OPENBLAS_CORETYPE to keep them\n";
  }
}

// Prints how long the units of the FFNs that the run starts from took to become experts.
void ReportSplit(const v1::RunSpec& spec) {
  if (spec.init_from().empty()) return;
  const auto record = ReadConversion(spec.init_from());
  if (!record.ok() || !record->has_value() || (*record)->split_seconds() == 0) return;
  std::cout << absl::StrFormat("experts of %s: units assigned in %.1f s", spec.init_from(),
                               (*record)->split_seconds())
            << std::endl;
}

std::string NonceOfAttempt() {
  const char* nonce = std::getenv(kNonceVariable);
  return nonce == nullptr ? "" : nonce;
}

// Ends the process without MPI_Abort: all its ranks belong to an attempt that was superseded, and
// each of them ends itself in the same way.
[[noreturn]] void EndSuperseded(int rank) {
  std::cerr << absl::StrCat(
                   "braid-trainer: rank ", rank,
                   ": superseded: another attempt to train this run has started; exiting\n")
            << std::flush;
  // Not exit: the heartbeat thread may be here, and static objects would be destroyed while the
  // training thread still uses them.
  _exit(kExitFenced);
}

// Polls stop.json at most five times a second, however short a step is.
class StopFile {
 public:
  explicit StopFile(RunDirectory directory) : directory_(std::move(directory)) {}

  bool Requested() {
    const auto now = std::chrono::steady_clock::now();
    if (requested_ || now < next_look_) return requested_;
    next_look_ = now + std::chrono::milliseconds(200);
    return requested_ = ReadStopRequest(directory_).has_value();
  }

 private:
  const RunDirectory directory_;
  bool requested_ = false;
  std::chrono::steady_clock::time_point next_look_;
};

// Returns false for errors that the same input would cause again.
bool IsRetryable(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return false;
    case absl::StatusCode::kDataLoss:
      return IsSystemError(status);  // EIO, which is not damage
    case absl::StatusCode::kInternal:
      return !IsAgreed(status);  // An agreed Internal error means values that are not finite.
    default:
      return true;
  }
}

// Removes the result of an earlier attempt, which must not be taken for that of this one. A result
// of this attempt is that of a rank that has failed meanwhile, and stays.
absl::Status RemoveEarlierExit(const RunDirectory& directory, const RunFence& fence) {
  const std::optional<ExitRecord> exit = directory.ReadExit();
  if (exit && !fence.nonce().empty() && exit->nonce == fence.nonce()) return absl::OkStatus();
  return directory.RemoveExit();
}

// `step`: set to the number of completed steps, also where an exception ends the training.
Ending Train(const RunDirectory& directory, Communicator& communicator, const RunFence& fence,
             const std::function<bool()>& stop_requested, int64_t* step) {
  absl::StatusOr<v1::RunSpec> written = directory.ReadSpec();
  if (!written.ok()) return {written.status()};
  absl::StatusOr<v1::RunSpec> spec = ResolveRunSpec(*written);
  if (!spec.ok()) return {spec.status()};
  if (communicator.rank() == 0) {
    if (absl::Status status = RemoveEarlierExit(directory, fence); !status.ok()) return {status};
    PrintSpec(*spec);
    ReportBlasCore(directory);
    ReportSplit(*spec);
  }
  SetModelThreads(spec->threads_per_rank());
  LoopEnvironment environment;
  environment.communicator = &communicator;
  environment.now = SteadyUnixClock();
  environment.wall_clock = UnixTime;
  StopFile stop_file(directory);
  // One rank reads the file for all; TrainingLoop::AgreeOnStep passes its answer on.
  environment.stop_requested = [&] {
    return stop_requested() || (communicator.rank() == 0 && stop_file.Requested());
  };
  // After SetModelThreads, since the peak is that of the run's number of threads.
  environment.peak_gflops = MeasureMatrixProductPeak();
  environment.nonce = fence.nonce();
  environment.superseded = [&] { return fence.Superseded(); };
  // Checked on the thread of the heartbeats: the training thread of a superseded rank may wait
  // forever in a collective call, for ranks that are gone.
  environment.before_beat = [&] {
    if (fence.Superseded()) EndSuperseded(communicator.rank());
  };
  TensorBoardLog tensorboard(directory.tensorboard(), *spec, &std::cerr);
  if (!spec->without_tensorboard()) {
    environment.on_step = [&](const v1::StepMetrics& metrics) { tensorboard.Append(metrics); };
  }
  TrainingLoop loop(directory, *spec, environment);
  const absl::Cleanup keep_step = [&] { *step = loop.step(); };
  absl::StatusOr<TrainingOutcome> outcome = loop.Run();
  return {std::move(outcome), loop.step()};
}

// Tensors report a failed allocation only by the text of a c10::Error.
bool IsOutOfMemory(const std::exception& e) {
  return dynamic_cast<const std::bad_alloc*>(&e) != nullptr ||
         absl::StrContains(e.what(), "DefaultCPUAllocator: can't allocate memory") ||
         absl::StrContains(e.what(), "CUDA out of memory");
}

// Running out of memory is caused by the environment, not by a broken invariant, so it becomes a
// Status.
Ending TrainCatching(const RunDirectory& directory, Communicator& communicator,
                     const RunFence& fence, const std::function<bool()>& stop_requested) {
  int64_t step = 0;
  try {
    return Train(directory, communicator, fence, stop_requested, &step);
  } catch (const std::exception& e) {
    if (!IsOutOfMemory(e)) return {absl::InternalError(e.what()), step};
    return {absl::ResourceExhaustedError(
                "out of memory; lower batch.micro_batch_size, or use more "
                "hosts (braid model describe --forecast estimates what a run needs)"),
            step};
  }
}

int Fail(const RunDirectory& directory, Communicator& communicator, const RunFence& fence,
         const Ending& ending) {
  // A superseded rank must not write exit.json, which belongs to the newer attempt.
  if (fence.Superseded()) EndSuperseded(communicator.rank());
  const std::string message(ending.outcome.status().message());
  std::cerr << absl::StrCat("braid-trainer: rank ", communicator.rank(), ": ", message, "\n")
            << std::flush;
  // The error is written before Abort, which ends this process too.
  if (std::filesystem::is_directory(directory.root())) {
    (void)directory.WriteExit({std::string(kFailed), message, ending.step, fence.nonce(),
                               IsRetryable(ending.outcome.status())},
                              communicator.rank());
  }
  communicator.Abort(kExitFailed);
  return kExitFailed;
}

}  // namespace

int RunTraining(const RunDirectory& directory, Communicator& communicator,
                const std::function<bool()>& stop_requested) {
  const RunFence fence(directory, NonceOfAttempt());
  if (fence.Superseded()) EndSuperseded(communicator.rank());
  Ending ending = TrainCatching(directory, communicator, fence, stop_requested);
  if (!ending.outcome.ok()) return Fail(directory, communicator, fence, ending);
  const bool stopped = *ending.outcome == TrainingOutcome::kInterrupted;
  if (communicator.rank() == 0) {
    const std::string outcome(stopped ? kStopped : kSucceeded);
    // The attempt that replaced this one reports the result of the run.
    if (fence.Superseded()) EndSuperseded(communicator.rank());
    const absl::Status status =
        directory.WriteExit({outcome, "", ending.step, fence.nonce(), false});
    if (!status.ok()) return Fail(directory, communicator, fence, {status, ending.step});
    std::cout << (stopped ? "stopped after step " : "done: step ") << ending.step << std::endl;
  }
  return stopped ? kExitStopped : kExitDone;
}

}  // namespace braid
