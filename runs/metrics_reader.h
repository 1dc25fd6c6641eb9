// metrics.jsonl line by line, in memory that does not grow with the run.
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

//   MetricsReader reader(run.metrics());
//   while (reader.NextLine()) {
//     ASSIGN_OR_RETURN(const v1::StepMetrics metrics, reader.Parse());
//   }
class MetricsReader {
 public:
  // A file that does not exist has no lines.
  explicit MetricsReader(std::filesystem::path path)
      : path_(std::move(path)), file_(path_, std::ios::binary) {}

  // False at the end. A last line without newline is still being written, and not read.
  bool NextLine();
  const std::string& line() const { return line_; }
  // From 1.
  int64_t line_number() const { return line_number_; }

  // The line as metrics; DataLoss names file, line and offset of one that is none.
  absl::StatusOr<v1::StepMetrics> Parse() const;

  // Requires NextLine() to have returned false. From the first line again, to the same last
  // one, whatever the trainer has added or, resuming, cut off since.
  void Rewind();

 private:
  const std::filesystem::path path_;
  std::ifstream file_;
  std::string line_;
  int64_t line_number_ = 0;
  int64_t offset_ = 0;  // behind line_
  int64_t last_line_ = INT64_MAX;
};

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_READER_H_
