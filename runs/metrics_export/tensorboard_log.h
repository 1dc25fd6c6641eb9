// The event files that a run writes while it trains, for TensorBoard to follow:
// RUN_DIR/tensorboard/events.out.tfevents.*, one per start of the run.
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

// A copy of metrics.jsonl for TensorBoard. Write errors cause a single warning and otherwise are
// ignored, so that training continues.
class TensorBoardLog {
 public:
  // Does not create a file yet. `warnings` is not owned.
  TensorBoardLog(std::filesystem::path directory, v1::RunSpec spec, std::ostream* warnings)
      : directory_(std::move(directory)), spec_(std::move(spec)), warnings_(warnings) {}
  ~TensorBoardLog();
  TensorBoardLog(const TensorBoardLog&) = delete;
  TensorBoardLog& operator=(const TensorBoardLog&) = delete;

  // Appends the events of a step, in a single write, so that readers see whole events. Steps must
  // be in order. The first call creates a new file, which sorts after all others there and voids
  // their events of this and later steps.
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
  int64_t size_ = 0;  // bytes of complete records
  bool warned_ = false;
};

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_TENSORBOARD_LOG_H_
