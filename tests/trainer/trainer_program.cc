#include "tests/trainer/trainer_program.h"

#include <chrono>

namespace braid {

TestProgram Trainer(const std::string& command, const std::filesystem::path& path) {
  if (command.empty()) return TestProgram({BRAID_TRAINER});
  return TestProgram({BRAID_TRAINER, command, path.string()});
}

TestProgram MpiTrainer(int ranks, const std::filesystem::path& run) {
  return TestProgram({BRAID_MPIRUN, "-n", std::to_string(ranks), "--allow-run-as-root",
                      "--oversubscribe", "--bind-to", "none", BRAID_TRAINER, "train",
                      run.string()});
}

bool WaitForStep(const RunDirectory& run, int64_t step) {
  const auto has_done = [&] {
    const auto metrics = run.ReadNewestMetrics();
    return metrics.has_value() && metrics->step() >= step;
  };
  return WaitUntil(has_done, std::chrono::seconds(60));
}

}  // namespace braid
