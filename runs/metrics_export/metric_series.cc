#include "runs/metrics_export/metric_series.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace braid {
namespace {

using Step = const v1::StepMetrics&;
using Layer = const v1::LayerRouting&;

constexpr char kNats[] = "nats/token";
constexpr char kSeconds[] = "s";
constexpr char kMebibytes[] = "MiB";

constexpr std::array kStepSeries = {
    StepSeries{"loss", "train/loss", kNats, [](Step m) { return m.loss(); }},
    StepSeries{"loss_after_first_segment", "train/loss_after_first_segment", kNats,
               [](Step m) { return m.loss_after_first_segment(); }},
    StepSeries{"perplexity", "train/perplexity", "", [](Step m) { return m.perplexity(); }, true},
    StepSeries{"learning_rate", "train/learning_rate", "",
               [](Step m) { return m.learning_rate(); }},
    StepSeries{"gradient_norm", "train/gradient_norm", "",
               [](Step m) { return m.gradient_norm(); }},
    StepSeries{"num_tokens", "train/num_tokens", "tokens",
               [](Step m) { return static_cast<double>(m.num_tokens()); }},
    StepSeries{"upcycled", "train/upcycled", "", [](Step m) { return m.upcycled() ? 1.0 : 0.0; }},
    StepSeries{"tokens_per_second", "speed/tokens_per_second", "tokens/s",
               [](Step m) { return m.tokens_per_second(); }},
    StepSeries{"step_seconds", "speed/step_seconds", kSeconds,
               [](Step m) { return m.step_seconds(); }},
    StepSeries{"gflops", "speed/gflops", "1e9 FLOP/s", [](Step m) { return m.gflops(); }, true},
    StepSeries{"model_flops_utilization", "speed/model_flops_utilization", "",
               [](Step m) { return m.model_flops_utilization(); }, true},
    StepSeries{"active_experts", "train/active_experts", "experts",
               [](Step m) { return static_cast<double>(m.active_experts()); }, true},
    StepSeries{"balance_loss", "train/balance_loss", "", [](Step m) { return m.balance_loss(); },
               true},
    StepSeries{"resident_mb", "memory/resident_mb", kMebibytes,
               [](Step m) { return m.resident_mb(); }, true},
    StepSeries{"peak_resident_mb", "memory/peak_resident_mb", kMebibytes,
               [](Step m) { return m.peak_resident_mb(); }, true},
    // The series from here on exist only for steps with times.
    StepSeries{"times.data", "time/data", kSeconds, [](Step m) { return m.times().data(); }},
    StepSeries{"times.router", "time/router", kSeconds, [](Step m) { return m.times().router(); }},
    StepSeries{"times.merge", "time/merge", kSeconds, [](Step m) { return m.times().merge(); }},
    StepSeries{"times.ffn", "time/ffn", kSeconds, [](Step m) { return m.times().ffn(); }},
    StepSeries{"times.attention", "time/attention", kSeconds,
               [](Step m) { return m.times().attention(); }},
    StepSeries{"times.head", "time/head", kSeconds, [](Step m) { return m.times().head(); }},
    StepSeries{"times.optimizer", "time/optimizer", kSeconds,
               [](Step m) { return m.times().optimizer(); }},
    StepSeries{"times.communication", "time/communication", kSeconds,
               [](Step m) { return m.times().communication(); }},
    StepSeries{"times.checkpoint", "time/checkpoint", kSeconds,
               [](Step m) { return m.times().checkpoint(); }},
    StepSeries{"times.other", "time/other", kSeconds, [](Step m) { return m.times().other(); }},
};
constexpr size_t kNumTimes = 10;
constexpr auto kStepSeriesOf = [](bool has_times) {
  return std::span(kStepSeries).first(kStepSeries.size() - (has_times ? 0 : kNumTimes));
};

constexpr std::array kLayerSeries = {
    LayerSeries{"entropy", "nats", [](Layer l) { return l.entropy(); }},
    LayerSeries{"effective_experts", "experts", [](Layer l) { return l.effective_experts(); }},
    LayerSeries{"active_experts", "experts",
                [](Layer l) { return static_cast<double>(l.active_experts()); }},
    LayerSeries{"expert_cosine", "", [](Layer l) { return l.expert_cosine(); }},
    // The series from here on exist only for layers with loads (TOKEN_CHOICE).
    LayerSeries{"busiest_over_mean", "", [](Layer l) { return l.busiest_over_mean(); }},
    LayerSeries{"starved_experts", "experts",
                [](Layer l) { return static_cast<double>(l.starved_experts()); }},
};
constexpr size_t kNumLoads = 2;
constexpr auto kLayerSeriesOf = [](bool has_loads) {
  return std::span(kLayerSeries).first(kLayerSeries.size() - (has_loads ? 0 : kNumLoads));
};

void AddLayer(const v1::LayerRouting& layer, std::vector<SeriesValue>* values) {
  for (const LayerSeries& series : kLayerSeriesOf(layer.load_size() > 0)) {
    values->push_back({{.layer_series = &series, .layer = layer.layer()}, series.value(layer)});
  }
  for (int e = 0; e < layer.mean_weights_size(); ++e) {
    values->push_back({{.layer = layer.layer(), .expert = e}, layer.mean_weights(e)});
  }
}

}  // namespace

std::span<const StepSeries> AllStepSeries() { return kStepSeries; }
std::span<const LayerSeries> AllLayerSeries() { return kLayerSeries; }

std::string ColumnOf(const SeriesKey& key) {
  if (key.step != nullptr) return key.step->column;
  if (key.layer_series != nullptr) {
    return absl::StrCat("routing.layer_", key.layer, ".", key.layer_series->name);
  }
  return absl::StrCat("routing.layer_", key.layer, ".mean_weights.", key.expert);
}

std::string TagOf(const SeriesKey& key) {
  if (key.step != nullptr) return key.step->tag;
  BRAID_CHECK(key.layer_series != nullptr) << ColumnOf(key);
  return absl::StrFormat("routing/layer_%02d/%s", key.layer, key.layer_series->name);
}

std::string UnitOf(const SeriesKey& key) {
  if (key.step != nullptr) return key.step->unit;
  return key.layer_series != nullptr ? key.layer_series->unit : "";
}

std::vector<SeriesValue> ValuesOf(const v1::StepMetrics& metrics) {
  std::vector<SeriesValue> values;
  for (const StepSeries& series : kStepSeriesOf(metrics.has_times())) {
    const double value = series.value(metrics);
    if (value == 0 && series.zero_is_unknown) continue;
    values.push_back({{.step = &series}, value});
  }
  for (const v1::LayerRouting& layer : metrics.routing()) AddLayer(layer, &values);
  return values;
}

}  // namespace braid
