// A summary of a run's series: last, least and greatest value.
#ifndef BRAID_RUNS_METRICS_EXPORT_SERIES_SUMMARY_H_
#define BRAID_RUNS_METRICS_EXPORT_SERIES_SUMMARY_H_

#include <cstdint>
#include <map>
#include <tuple>

#include "braid/v1/report.pb.h"
#include "braid/v1/training.pb.h"
#include "runs/metrics_export/metric_series.h"

namespace braid {

class SeriesSummary {
 public:
  void Add(const v1::StepMetrics& metrics);
  // Returns the summaries in the order of a table's columns, without the run's name.
  v1::MetricsSummary Summary() const;

 private:
  // Sorts the series of a step first, then layer by layer.
  using Place = std::tuple<int32_t, size_t, int32_t>;
  static Place PlaceOf(const SeriesKey& key);

  int64_t num_steps_ = 0;
  std::map<Place, v1::MetricSeries> series_;
};

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_SERIES_SUMMARY_H_
