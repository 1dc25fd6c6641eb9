#include "runs/metrics_export/series_summary.h"

#include <cmath>
#include <limits>

namespace braid {
namespace {

v1::MetricSeries NewSeries(const SeriesKey& key) {
  v1::MetricSeries series;
  series.set_name(ColumnOf(key));
  series.set_unit(UnitOf(key));
  series.set_min(std::numeric_limits<double>::quiet_NaN());
  series.set_max(std::numeric_limits<double>::quiet_NaN());
  return series;
}

void AddValue(double value, v1::MetricSeries* series) {
  series->set_num_steps(series->num_steps() + 1);
  series->set_last(value);
  if (!std::isfinite(value)) return;
  // fmin and fmax ignore the initial NaN.
  series->set_min(std::fmin(series->min(), value));
  series->set_max(std::fmax(series->max(), value));
}

}  // namespace

SeriesSummary::Place SeriesSummary::PlaceOf(const SeriesKey& key) {
  if (key.step != nullptr) return {-1, key.step - AllStepSeries().data(), 0};
  if (key.layer_series != nullptr) {
    return {key.layer, key.layer_series - AllLayerSeries().data(), 0};
  }
  const size_t series = key.expert_series - AllExpertSeries().data();
  return {key.layer, AllLayerSeries().size() + series, key.expert};
}

void SeriesSummary::Add(const v1::StepMetrics& metrics) {
  ++num_steps_;
  for (const SeriesValue& value : ValuesOf(metrics)) {
    const Place place = PlaceOf(value.key);
    auto found = series_.find(place);
    if (found == series_.end()) found = series_.emplace(place, NewSeries(value.key)).first;
    AddValue(value.value, &found->second);
  }
}

v1::MetricsSummary SeriesSummary::Summary() const {
  v1::MetricsSummary summary;
  summary.set_num_steps(num_steps_);
  for (const auto& [place, series] : series_) *summary.add_series() = series;
  return summary;
}

}  // namespace braid
