// The series of a run, with their units and names in tables and in TensorBoard. Numbers of
// datasets, domains, dropout and layer mixing are in run_events.h alone. docs/formats/metrics.md
// lists all.
#ifndef BRAID_RUNS_METRICS_EXPORT_METRIC_SERIES_H_
#define BRAID_RUNS_METRICS_EXPORT_METRIC_SERIES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid {

// A series with a value for every step.
struct StepSeries {
  const char* column;  // path of the field
  const char* tag;     // group/name
  const char* unit;    // empty when dimensionless
  double (*value)(const v1::StepMetrics&);
  // True if zero means that the number was not measured, that it covers no token, or that it was
  // not yet written by the version of braid that trained the run.
  bool zero_is_unknown = false;
  // Returns true for steps that have this number; null when all steps have it.
  bool (*present)(const v1::StepMetrics&) = nullptr;
};

// A series with a value for every layer with experts, at steps that measure routing.
struct LayerSeries {
  const char* name;
  const char* unit;
  double (*value)(const v1::LayerRouting&);
};

// A series with a value for every expert of a layer, at steps that measure routing.
struct ExpertSeries {
  const char* name;  // that of the repeated field
  const google::protobuf::RepeatedField<double>& (*values)(const v1::LayerRouting&);
};

std::span<const StepSeries> AllStepSeries();
std::span<const LayerSeries> AllLayerSeries();
std::span<const ExpertSeries> AllExpertSeries();

// The series that a value belongs to: of a step (`step` is set), of a layer (`layer_series`), or of
// an expert of a layer (`expert_series`).
struct SeriesKey {
  const StepSeries* step = nullptr;
  const LayerSeries* layer_series = nullptr;
  const ExpertSeries* expert_series = nullptr;
  int32_t layer = 0;
  int32_t expert = 0;
};
struct SeriesValue {
  SeriesKey key;
  double value;
};

// Returns the column name: "loss", "times.ffn", "routing.layer_3.entropy",
// "routing.layer_3.mean_weights.7", "routing.layer_3.load.7".
std::string ColumnOf(const SeriesKey& key);
// Returns the TensorBoard tag: "train/loss", "time/ffn", "routing/layer_03/entropy". The key must
// not be that of an expert.
std::string TagOf(const SeriesKey& key);
std::string UnitOf(const SeriesKey& key);

// Returns all known values of a step, in the order of the tables above, then layer by layer. The
// step number and its time are not included.
std::vector<SeriesValue> ValuesOf(const v1::StepMetrics& metrics);

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_METRIC_SERIES_H_
