// The metrics of a run as a CSV table (RFC 4180): one row per step, one column per series.
#ifndef BRAID_RUNS_METRICS_EXPORT_CSV_TABLE_H_
#define BRAID_RUNS_METRICS_EXPORT_CSV_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "runs/metrics_export/metric_series.h"

namespace braid {

// The columns must be known before the first row: pass every step to Add(), or at least those that
// measured routing, then write Header() and one Row() per step.
class CsvTable {
 public:
  void Add(const v1::StepMetrics& metrics);

  // Returns the header line, including the line end. Columns: step, time, the series of a step,
  // then layer by layer the series of the layer and of its experts.
  std::string Header();
  // Returns the row of a step, including the line end. Cells are empty where the step has no value;
  // "nan", "inf" and "-inf" are possible. Numbers read back as the same double. Requires Header()
  // first. NotFound names a layer or expert that was not added.
  absl::StatusOr<std::string> Row(const v1::StepMetrics& metrics) const;

 private:
  // Returns the column of a series; absent when it was not added.
  std::optional<size_t> PositionOf(const SeriesKey& key) const;

  // The first column of a layer, and for each of AllExpertSeries() the number of experts that have
  // one.
  struct Layer {
    size_t first = 0;
    std::vector<int> num_experts;
  };
  std::map<int32_t, Layer> layers_;
  size_t num_columns_ = 0;
};

// Returns the shortest text that reads back as the same double; integers without exponent.
std::string CsvNumber(double value);

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_CSV_TABLE_H_
