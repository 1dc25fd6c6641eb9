#include "trainer/training_run.h"

#include <chrono>
#include <exception>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"
#include "trainer/model/matrix_product_peak.h"
#include "trainer/run_spec.h"
#include "trainer/training_loop.h"

namespace braid {
namespace {

// Unix seconds that never step back: the wall clock is read once.
std::function<double()> SteadyUnixClock() {
  using Seconds = std::chrono::duration<double>;
  const double start = Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto origin = std::chrono::steady_clock::now();
  return [=] { return start + Seconds(std::chrono::steady_clock::now() - origin).count(); };
}

struct Ending {
  absl::StatusOr<TrainingOutcome> outcome = absl::UnknownError("not run");
  int64_t step = 0;
};

void PrintSpec(const v1::RunSpec& spec) {
  std::cout << "training with the resolved configuration\n" << spec.DebugString() << std::flush;
}

Ending Train(const RunDirectory& directory, Communicator& communicator,
             const std::function<bool()>& stop_requested) {
  absl::StatusOr<v1::RunSpec> written = directory.ReadSpec();
  if (!written.ok()) return {written.status()};
  absl::StatusOr<v1::RunSpec> spec = ResolveRunSpec(*written);
  if (!spec.ok()) return {spec.status()};
  if (communicator.rank() == 0) {
    if (absl::Status status = directory.RemoveExit(); !status.ok()) return {status};
    PrintSpec(*spec);
  }
  SetModelThreads(spec->threads_per_rank());
  LoopEnvironment environment;
  environment.communicator = &communicator;
  environment.now = SteadyUnixClock();
  environment.stop_requested = stop_requested;
  environment.peak_gflops = MeasureMatrixProductPeak();
  TrainingLoop loop(directory, *spec, environment);
  absl::StatusOr<TrainingOutcome> outcome = loop.Run();
  return {std::move(outcome), loop.step()};
}

// Memory that runs out is the outside world's doing, not a broken invariant.
Ending TrainCatching(const RunDirectory& directory, Communicator& communicator,
                     const std::function<bool()>& stop_requested) {
  try {
    return Train(directory, communicator, stop_requested);
  } catch (const std::exception& e) {
    return {absl::InternalError(e.what())};
  }
}

int Fail(const RunDirectory& directory, Communicator& communicator, const Ending& ending) {
  const std::string message(ending.outcome.status().message());
  std::cerr << absl::StrCat("braid-trainer: rank ", communicator.rank(), ": ", message, "\n")
            << std::flush;
  if (std::filesystem::is_directory(directory.root())) {
    (void)directory.WriteExit({std::string(kFailed), message, ending.step}, communicator.rank());
  }
  communicator.Abort(kExitFailed);
  return kExitFailed;
}

}  // namespace

int RunTraining(const RunDirectory& directory, Communicator& communicator,
                const std::function<bool()>& stop_requested) {
  Ending ending = TrainCatching(directory, communicator, stop_requested);
  if (!ending.outcome.ok()) return Fail(directory, communicator, ending);
  const bool stopped = *ending.outcome == TrainingOutcome::kInterrupted;
  if (communicator.rank() == 0) {
    const std::string outcome(stopped ? kStopped : kSucceeded);
    const absl::Status status = directory.WriteExit({outcome, "", ending.step});
    if (!status.ok()) return Fail(directory, communicator, {status, ending.step});
    std::cout << (stopped ? "stopped after step " : "done: step ") << ending.step << std::endl;
  }
  return stopped ? kExitStopped : kExitDone;
}

}  // namespace braid
