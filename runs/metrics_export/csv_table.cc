#include "runs/metrics_export/csv_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "runs/metrics_export/metric_series.h"

namespace braid {
namespace {

constexpr char kEndOfLine[] = "\r\n";
constexpr size_t kFirstSeries = 2;  // after the columns step and time
// All integers up to this one are exact in a double.
constexpr double kLargestInteger = 9007199254740992;

}  // namespace

std::string CsvNumber(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == std::trunc(value) && std::abs(value) <= kLargestInteger) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return std::string(text.data(), end);
}

void CsvTable::Add(const v1::StepMetrics& metrics) {
  for (const v1::LayerRouting& layer : metrics.routing()) {
    std::vector<int>& experts = layers_[layer.layer()].num_experts;
    experts.resize(AllExpertSeries().size());
    for (size_t i = 0; i < experts.size(); ++i) {
      experts[i] = std::max(experts[i], AllExpertSeries()[i].values(layer).size());
    }
  }
}

std::string CsvTable::Header() {
  std::vector<std::string> columns = {"step", "time"};
  for (const StepSeries& series : AllStepSeries()) columns.push_back(series.column);
  for (auto& [number, layer] : layers_) {
    layer.first = columns.size();
    for (const LayerSeries& series : AllLayerSeries()) {
      columns.push_back(ColumnOf({.layer_series = &series, .layer = number}));
    }
    for (size_t i = 0; i < layer.num_experts.size(); ++i) {
      for (int e = 0; e < layer.num_experts[i]; ++e) {
        columns.push_back(
            ColumnOf({.expert_series = &AllExpertSeries()[i], .layer = number, .expert = e}));
      }
    }
  }
  num_columns_ = columns.size();
  return absl::StrJoin(columns, ",") + kEndOfLine;
}

absl::StatusOr<std::string> CsvTable::Row(const v1::StepMetrics& metrics) const {
  BRAID_CHECK(num_columns_ > 0) << "a row before the header";
  std::vector<std::string> cells(num_columns_);
  cells[0] = absl::StrCat(metrics.step());
  if (metrics.time() != 0) cells[1] = CsvNumber(metrics.time());
  for (const SeriesValue& value : ValuesOf(metrics)) {
    const std::optional<size_t> position = PositionOf(value.key);
    if (!position) return absl::NotFoundError(ColumnOf(value.key) + " has no column");
    cells[*position] = CsvNumber(value.value);
  }
  return absl::StrJoin(cells, ",") + kEndOfLine;
}

std::optional<size_t> CsvTable::PositionOf(const SeriesKey& key) const {
  if (key.step != nullptr) return kFirstSeries + (key.step - AllStepSeries().data());
  const auto layer = layers_.find(key.layer);
  if (layer == layers_.end()) return std::nullopt;
  if (key.layer_series != nullptr) {
    return layer->second.first + (key.layer_series - AllLayerSeries().data());
  }
  const std::vector<int>& experts = layer->second.num_experts;
  const ptrdiff_t series = key.expert_series - AllExpertSeries().data();
  if (key.expert >= experts[series]) return std::nullopt;
  const int before = std::accumulate(experts.begin(), experts.begin() + series, 0);
  return layer->second.first + AllLayerSeries().size() + before + key.expert;
}

}  // namespace braid
