// What a person wants to know of a run's series first: last value, least and greatest.
#ifndef BRAID_RUNS_METRICS_EXPORT_SERIES_SUMMARY_H_
#define BRAID_RUNS_METRICS_EXPORT_SERIES_SUMMARY_H_

#include <cstdint>
#include <map>
#include <tuple>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/training.pb.h"
#include "runs/metrics_export/metric_series.h"

namespace braid {

class SeriesSummary {
 public:
  void Add(const v1::StepMetrics& metrics);
  // In the order of the columns of a table; without the run's name.
  v1::MetricsSummary Summary() const;

 private:
  // Of a step, then layer by layer.
  using Place = std::tuple<int32_t, size_t, int32_t>;
  static Place PlaceOf(const SeriesKey& key);

  int64_t num_steps_ = 0;
  std::map<Place, v1::MetricSeries> series_;
};

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_SERIES_SUMMARY_H_
