// Reads metrics.jsonl line by line, in memory that does not grow with the run.
#ifndef BRAID_RUNS_METRICS_READER_H_
#define BRAID_RUNS_METRICS_READER_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// A reader of one file. A file that does not exist has no lines.
//
//   MetricsReader reader(run.metrics());
//   while (reader.NextLine()) {
//     ASSIGN_OR_RETURN(const v1::StepMetrics metrics, reader.Parse());
//   }
class MetricsReader {
 public:
  explicit MetricsReader(std::filesystem::path path)
      : path_(std::move(path)), file_(path_, std::ios::binary) {}

  // Reads the next line; returns false at the end. A last line without newline is still being
  // written and is not read.
  bool NextLine();
  const std::string& line() const { return line_; }
  // Returns the number of the current line, from 1.
  int64_t line_number() const { return line_number_; }

  // Parses the current line. DataLoss names file, line and offset when it is not a StepMetrics.
  absl::StatusOr<v1::StepMetrics> Parse() const;

  // Returns to the first line. The second pass ends at the same last line, even if the trainer has
  // appended lines or, on resuming, removed some since. Requires NextLine() to have returned false.
  void Rewind();

 private:
  const std::filesystem::path path_;
  std::ifstream file_;
  std::string line_;
  int64_t line_number_ = 0;
  int64_t offset_ = 0;  // for the end of line_
  int64_t last_line_ = INT64_MAX;
};

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_READER_H_
