// A run's metrics as one table in CSV (RFC 4180): a row a step, a column a series.
#ifndef BRAID_RUNS_METRICS_EXPORT_CSV_TABLE_H_
#define BRAID_RUNS_METRICS_EXPORT_CSV_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "runs/metrics_export/metric_series.h"

namespace braid {

// Which columns there are has to be known before the first row: pass every step to Add(), or at
// least those that measured routing, then write Header() and a Row() for each step.
class CsvTable {
 public:
  void Add(const v1::StepMetrics& metrics);

  // With the end of line, as Row(). Columns: step, time, those of a step, then layer by layer
  // those of a layer and of its experts.
  std::string Header();
  // Empty where a step has no value; "nan", "inf", "-inf". Numbers read back as the same double.
  // Requires Header() first. NotFound names a layer or expert that was not added.
  absl::StatusOr<std::string> Row(const v1::StepMetrics& metrics) const;

 private:
  // Absent when it was not added.
  std::optional<size_t> PositionOf(const SeriesKey& key) const;

  // Its first column, and how many experts have one.
  struct Layer {
    size_t first = 0;
    int num_experts = 0;
  };
  std::map<int32_t, Layer> layers_;
  size_t num_columns_ = 0;
};

// The shortest text that reads back as the same double; integers without exponent.
std::string CsvNumber(double value);

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_CSV_TABLE_H_
