// The series of a run: every number of StepMetrics, its name in tables and in
// TensorBoard, and its unit. docs/formats/metrics.md lists them.
#ifndef BRAID_RUNS_METRICS_EXPORT_METRIC_SERIES_H_
#define BRAID_RUNS_METRICS_EXPORT_METRIC_SERIES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid {

// A number that every step has.
struct StepSeries {
  const char* column;  // path of the field
  const char* tag;     // group/name
  const char* unit;    // empty: none
  double (*value)(const v1::StepMetrics&);
  // Zero stands for a number that was not measured, or not yet written by the
  // version of braid that trained the run.
  bool zero_is_unknown = false;
};

// A number that every layer with experts has at a measured step.
struct LayerSeries {
  const char* name;
  const char* unit;
  double (*value)(const v1::LayerRouting&);
};

std::span<const StepSeries> AllStepSeries();
std::span<const LayerSeries> AllLayerSeries();

// Which series a value belongs to: one of a step (`step` is set), of a layer (`layer_series`) or
// the mean weight of an expert of a layer (neither).
struct SeriesKey {
  const StepSeries* step = nullptr;
  const LayerSeries* layer_series = nullptr;
  int32_t layer = 0;
  int32_t expert = 0;
};
struct SeriesValue {
  SeriesKey key;
  double value;
};

// "loss", "times.ffn", "routing.layer_3.entropy", "routing.layer_3.mean_weights.7".
std::string ColumnOf(const SeriesKey& key);
// "train/loss", "time/ffn", "routing/layer_03/entropy". Requires no expert's weight.
std::string TagOf(const SeriesKey& key);
std::string UnitOf(const SeriesKey& key);

// All that is known of a step, in the order of the tables above, then layer by layer; but
// for the step itself and its time.
std::vector<SeriesValue> ValuesOf(const v1::StepMetrics& metrics);

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_METRIC_SERIES_H_
