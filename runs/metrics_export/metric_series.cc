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

constexpr auto kHasTimes = [](Step m) { return m.has_times(); };
constexpr auto kHasValidation = [](Step m) { return m.has_validation(); };
constexpr auto kHasAccuracy = [](Step m) { return m.validation().has_accuracy(); };
constexpr auto kHasSpike = [](Step m) { return m.has_spike(); };

constexpr StepSeries TimeSeries(const char* column, const char* tag, double (*value)(Step)) {
  return {column, tag, kSeconds, value, false, kHasTimes};
}

constexpr StepSeries ValidationSeries(const char* column, const char* tag, const char* unit,
                                      double (*value)(Step)) {
  return {column, tag, unit, value, false, kHasValidation};
}

constexpr StepSeries SpikeSeries(const char* column, const char* tag, const char* unit,
                                 double (*value)(Step)) {
  return {column, tag, unit, value, false, kHasSpike};
}

constexpr std::array kStepSeries = {
    StepSeries{"loss", "train/loss", kNats, [](Step m) { return m.loss(); }},
    StepSeries{"loss_after_first_segment", "train/loss_after_first_segment", kNats,
               [](Step m) { return m.loss_after_first_segment(); }, true},
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
    StepSeries{"consistency", "train/consistency", kNats, [](Step m) { return m.consistency(); },
               true},
    StepSeries{"mean_active_experts", "train/mean_active_experts", "experts",
               [](Step m) { return m.mean_active_experts(); }, true},
    StepSeries{"l1_coefficient", "train/l1_coefficient", "",
               [](Step m) { return m.l1_coefficient(); }, true},
    StepSeries{"resident_mb", "memory/resident_mb", kMebibytes,
               [](Step m) { return m.resident_mb(); }, true},
    StepSeries{"peak_resident_mb", "memory/peak_resident_mb", kMebibytes,
               [](Step m) { return m.peak_resident_mb(); }, true},
    TimeSeries("times.data", "time/data", [](Step m) { return m.times().data(); }),
    TimeSeries("times.router", "time/router", [](Step m) { return m.times().router(); }),
    TimeSeries("times.merge", "time/merge", [](Step m) { return m.times().merge(); }),
    TimeSeries("times.ffn", "time/ffn", [](Step m) { return m.times().ffn(); }),
    TimeSeries("times.attention", "time/attention", [](Step m) { return m.times().attention(); }),
    TimeSeries("times.head", "time/head", [](Step m) { return m.times().head(); }),
    TimeSeries("times.optimizer", "time/optimizer", [](Step m) { return m.times().optimizer(); }),
    TimeSeries("times.communication", "time/communication",
               [](Step m) { return m.times().communication(); }),
    TimeSeries("times.checkpoint", "time/checkpoint",
               [](Step m) { return m.times().checkpoint(); }),
    TimeSeries("times.other", "time/other", [](Step m) { return m.times().other(); }),
    ValidationSeries("validation.loss", "validation/loss", kNats,
                     [](Step m) { return m.validation().loss(); }),
    StepSeries{"validation.loss_after_first_segment", "validation/loss_after_first_segment", kNats,
               [](Step m) { return m.validation().loss_after_first_segment(); }, true,
               kHasValidation},
    ValidationSeries("validation.num_windows", "validation/num_windows", "windows",
                     [](Step m) { return static_cast<double>(m.validation().num_windows()); }),
    ValidationSeries("validation.seconds", "validation/seconds", kSeconds,
                     [](Step m) { return m.validation().seconds(); }),
    ValidationSeries("validation.best_loss", "validation/best_loss", kNats,
                     [](Step m) { return m.validation().best_loss(); }),
    ValidationSeries("validation.best_step", "validation/best_step", "",
                     [](Step m) { return static_cast<double>(m.validation().best_step()); }),
    ValidationSeries("validation.stopped_early", "validation/stopped_early", "",
                     [](Step m) { return m.validation().stopped_early() ? 1.0 : 0.0; }),
    StepSeries{"validation.accuracy", "validation/accuracy", "",
               [](Step m) { return m.validation().accuracy(); }, false, kHasAccuracy},
    SpikeSeries("spike.step", "spike/step", "",
                [](Step m) { return static_cast<double>(m.spike().step()); }),
    SpikeSeries("spike.action", "spike/action", "",
                [](Step m) { return static_cast<double>(m.spike().action()); }),
    SpikeSeries("spike.loss", "spike/loss", kNats, [](Step m) { return m.spike().loss(); }),
    SpikeSeries("spike.gradient_norm", "spike/gradient_norm", "",
                [](Step m) { return m.spike().gradient_norm(); }),
    SpikeSeries("spike.loss_z", "spike/loss_z", "", [](Step m) { return m.spike().loss_z(); }),
    SpikeSeries("spike.gradient_norm_z", "spike/gradient_norm_z", "",
                [](Step m) { return m.spike().gradient_norm_z(); }),
    SpikeSeries("spike.first_skipped_step", "spike/first_skipped_step", "",
                [](Step m) { return static_cast<double>(m.spike().first_skipped_step()); }),
    SpikeSeries("spike.last_skipped_step", "spike/last_skipped_step", "",
                [](Step m) { return static_cast<double>(m.spike().last_skipped_step()); }),
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
    LayerSeries{"load_entropy", "nats", [](Layer l) { return l.load_entropy(); }},
};
constexpr size_t kNumLoads = 3;
constexpr auto kLayerSeriesOf = [](bool has_loads) {
  return std::span(kLayerSeries).first(kLayerSeries.size() - (has_loads ? 0 : kNumLoads));
};

constexpr std::array kExpertSeries = {
    ExpertSeries{
        "mean_weights",
        [](Layer l) -> const google::protobuf::RepeatedField<double>& { return l.mean_weights(); }},
    ExpertSeries{
        "load", [](Layer l) -> const google::protobuf::RepeatedField<double>& { return l.load(); }},
};

void AddLayer(const v1::LayerRouting& layer, std::vector<SeriesValue>* values) {
  for (const LayerSeries& series : kLayerSeriesOf(layer.load_size() > 0)) {
    values->push_back({{.layer_series = &series, .layer = layer.layer()}, series.value(layer)});
  }
  for (const ExpertSeries& series : kExpertSeries) {
    const auto& numbers = series.values(layer);
    for (int e = 0; e < numbers.size(); ++e) {
      values->push_back(
          {{.expert_series = &series, .layer = layer.layer(), .expert = e}, numbers[e]});
    }
  }
}

}  // namespace

std::span<const StepSeries> AllStepSeries() { return kStepSeries; }
std::span<const LayerSeries> AllLayerSeries() { return kLayerSeries; }
std::span<const ExpertSeries> AllExpertSeries() { return kExpertSeries; }

std::string ColumnOf(const SeriesKey& key) {
  if (key.step != nullptr) return key.step->column;
  if (key.layer_series != nullptr) {
    return absl::StrCat("routing.layer_", key.layer, ".", key.layer_series->name);
  }
  BRAID_CHECK(key.expert_series != nullptr) << "a key of no series";
  return absl::StrCat("routing.layer_", key.layer, ".", key.expert_series->name, ".", key.expert);
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
  for (const StepSeries& series : kStepSeries) {
    if (series.present != nullptr && !series.present(metrics)) continue;
    const double value = series.value(metrics);
    if (value == 0 && series.zero_is_unknown) continue;
    values.push_back({{.step = &series}, value});
  }
  for (const v1::LayerRouting& layer : metrics.routing()) AddLayer(layer, &values);
  return values;
}

}  // namespace braid
