// Event files that a run writes while it trains, for TensorBoard to follow:
// RUN_DIR/tensorboard/events.out.tfevents.*, one for each time the run was started.
#ifndef BRAID_RUNS_METRICS_EXPORT_TENSORBOARD_LOG_H_
#define BRAID_RUNS_METRICS_EXPORT_TENSORBOARD_LOG_H_

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"

namespace braid {

// A copy of metrics.jsonl for the eye: what cannot be written is left out with one
// warning, and training goes on.
class TensorBoardLog {
 public:
  // Creates nothing yet. `warnings` is not owned.
  TensorBoardLog(std::filesystem::path directory, v1::RunSpec spec, std::ostream* warnings)
      : directory_(std::move(directory)), spec_(std::move(spec)), warnings_(warnings) {}
  ~TensorBoardLog();
  TensorBoardLog(const TensorBoardLog&) = delete;
  TensorBoardLog& operator=(const TensorBoardLog&) = delete;

  // Steps in order. The first opens a file of its own behind all others there, which
  // voids what those have of this and later steps. In one write, so that a reader sees
  // whole events.
  void Append(const v1::StepMetrics& metrics);

 private:
  absl::Status TryToAppend(const v1::StepMetrics& metrics);
  absl::Status Open(const v1::StepMetrics& first);
  absl::Status Write(const std::string& records);

  const std::filesystem::path directory_;
  const v1::RunSpec spec_;
  std::ostream* const warnings_;
  std::filesystem::path file_;
  int descriptor_ = -1;
  int64_t size_ = 0;  // bytes of whole records
  bool warned_ = false;
};

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_TENSORBOARD_LOG_H_
