// Reads metrics.jsonl line by line, in memory that does not grow with the run.
#ifndef BRAID_RUNS_METRICS_READER_H_
#define BRAID_RUNS_METRICS_READER_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "runs/run_directory.h"

namespace braid {

// Returns "ends at step 23 of 60" when a run has succeeded (`exit`) but its metrics end at another
// step than it completed; otherwise "". `last_step` is that of the last line, 0 without lines.
std::string WrongEnd(const std::optional<ExitRecord>& exit, int64_t last_step);

// A reader of the metrics of one run. A file that does not exist has no lines.
//
//   MetricsReader reader(run);
//   v1::StepMetrics metrics;
//   while (reader.NextLine()) {
//     ASSIGN_OR_RETURN(metrics, reader.Parse());
//   }
//   RETURN_IF_ERROR(reader.CheckEnd(metrics.step()));
class MetricsReader {
 public:
  explicit MetricsReader(const RunDirectory& run);

  // Reads the next line; returns false at the end. A last line without newline counts as still
  // being written and is not read, unless it is damaged (it contains zeros or does not begin with
  // '{'): then it is read, and Parse returns DataLoss.
  bool NextLine();
  const std::string& line() const { return line_; }
  // Returns the number of the current line, from 1.
  int64_t line_number() const { return line_number_; }

  // Parses the current line. DataLoss names file, line and offset when it is not a StepMetrics.
  absl::StatusOr<v1::StepMetrics> Parse() const;

  // The error of the file system if the file could not be read, so that lines may be missing.
  // DataLoss, naming the file, when the run has succeeded but the file does not end with the line
  // of its last step. `last_step` is that of the last line, 0 without lines. Requires NextLine() to
  // have returned false.
  absl::Status CheckEnd(int64_t last_step) const;

  // Returns to the first line. The second pass ends at the same last line, even if the trainer has
  // appended lines or, on resuming, removed some since. Requires NextLine() to have returned false.
  void Rewind();

 private:
  const std::filesystem::path path_;
  // Read before the file: the trainer writes it after the last line.
  const std::optional<ExitRecord> exit_;
  std::ifstream file_;
  absl::Status read_error_;
  std::string line_;
  int64_t line_number_ = 0;
  int64_t offset_ = 0;  // for the end of line_
  int64_t last_line_ = INT64_MAX;
  bool is_cut_ = false;  // the file ended with a line without newline
};

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_READER_H_
