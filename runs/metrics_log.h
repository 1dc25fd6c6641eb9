// The writer of metrics.jsonl: one StepMetrics per line, in step order, each step once.
#ifndef BRAID_RUNS_METRICS_LOG_H_
#define BRAID_RUNS_METRICS_LOG_H_

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Returns one line without newline: proto3 JSON, snake_case names, every scalar present.
std::string MetricsLine(const v1::StepMetrics& metrics);

class MetricsLog {
 public:
  // Opens the log to continue after `step`. Removes the lines of later steps, and a last line cut
  // short by a crash. Leaves out other lines that cannot be read, too, with a warning; the file as
  // it was is then kept beside it, as NAME.damaged. A file that exists but cannot be read stays,
  // and its error is returned.
  static absl::StatusOr<std::unique_ptr<MetricsLog>> Open(const std::filesystem::path& path,
                                                          int64_t step,
                                                          std::ostream* warnings = &std::cerr);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  // Appends a line in a single write, so that readers see whole lines.
  absl::Status Append(const v1::StepMetrics& metrics);

  // Flushes to the device. Called before a checkpoint is published, so that after a power cut the
  // log reaches at least to the checkpoint's step. Callable from any thread.
  absl::Status Sync();

 private:
  MetricsLog(std::filesystem::path path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_LOG_H_
