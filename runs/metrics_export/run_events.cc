#include "runs/metrics_export/run_events.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "formats/event_file.h"
#include "runs/main_figures.h"
#include "runs/metrics_export/metric_series.h"

namespace braid {
namespace {

using tensorboard::Event;
using tensorboard::Histogram;
using tensorboard::Metadata;
using tensorboard::Summary;
using tensorboard::Tensor;

Event NewEvent(double wall_time, int64_t step) {
  Event event;
  event.set_wall_time(wall_time);
  event.set_step(step);
  return event;
}

void AddScalar(std::string tag, double number, Summary* summary) {
  Summary::Value* value = summary->add_value();
  value->set_tag(std::move(tag));
  value->set_simple_value(static_cast<float>(number));
}

void AddIfMeasured(std::string tag, double number, Summary* summary) {
  if (!std::isnan(number)) AddScalar(std::move(tag), number, summary);
}

// min and max are the outer edges of the non-empty buckets: readers use them as the edges of the
// outermost buckets that they keep.
void AddBucket(int number, double weight, Histogram* histogram) {
  const double middle = number + 0.5;
  if (weight > 0) {
    if (histogram->num() == 0) histogram->set_min(number);
    histogram->set_max(number + 1);
  }
  histogram->set_num(histogram->num() + weight);
  histogram->set_sum(histogram->sum() + weight * middle);
  histogram->set_sum_squares(histogram->sum_squares() + weight * middle * middle);
  histogram->add_bucket_limit(number + 1);
  histogram->add_bucket(weight);
}

// Adds a histogram of weights by number, unless one of them is not a weight.
void AddHistogram(const std::string& tag, const google::protobuf::RepeatedField<double>& weights,
                  Summary* summary) {
  const auto is_weight = [](double w) { return std::isfinite(w) && w >= 0; };
  if (weights.empty() || !std::ranges::all_of(weights, is_weight)) return;
  Summary::Value* value = summary->add_value();
  value->set_tag(tag);
  for (int i = 0; i < weights.size(); ++i) AddBucket(i, weights[i], value->mutable_histogram());
}

std::set<std::string> DatasetsOf(const v1::StepMetrics& metrics) {
  std::set<std::string> datasets;
  for (const v1::DatasetLoss& dataset : metrics.datasets()) datasets.insert(dataset.dataset());
  for (const v1::ValidationDomain& domain : metrics.validation().domains()) {
    datasets.insert(domain.dataset());
  }
  return datasets;
}

// Returns the last part of a dataset's directory, with those before it as far as others of `all`
// end alike, and a slash; empty for a run on one dataset.
std::string DatasetPrefix(const std::string& dataset, const std::set<std::string>& all) {
  if (dataset.empty()) return "";
  const auto is_shared = [&](const std::string& end) {
    return std::ranges::count_if(
               all, [&](const std::string& other) { return other.ends_with(end); }) > 1;
  };
  size_t slash = dataset.rfind('/');
  while (slash != dataset.npos && slash > 0 && is_shared(dataset.substr(slash))) {
    slash = dataset.rfind('/', slash - 1);
  }
  return absl::StrCat(slash == dataset.npos ? dataset : dataset.substr(slash + 1), "/");
}

void AddLossesByText(const v1::StepMetrics& metrics, Summary* summary) {
  const std::set<std::string> datasets = DatasetsOf(metrics);
  for (const v1::ValidationDomain& domain : metrics.validation().domains()) {
    const std::string group = absl::StrCat("validation/", DatasetPrefix(domain.dataset(), datasets),
                                           domain.domain(), "/");
    AddScalar(group + "loss", domain.loss(), summary);
    if (domain.loss_after_first_segment() != 0) {
      AddScalar(group + "loss_after_first_segment", domain.loss_after_first_segment(), summary);
    }
  }
  for (const v1::DatasetLoss& dataset : metrics.datasets()) {
    const std::string group = absl::StrCat("datasets/", DatasetPrefix(dataset.dataset(), datasets));
    if (dataset.num_instances() > 0) AddScalar(group + "loss", dataset.loss(), summary);
    AddScalar(group + "total_instances", static_cast<double>(dataset.total_instances()), summary);
  }
}

void AddDomain(const v1::DomainEvaluation& domain, const std::string& name, Summary* summary) {
  const std::string group = absl::StrCat("heldout/", name, "/");
  AddIfMeasured(group + "perplexity", MainPerplexity(domain), summary);
  AddIfMeasured(group + "loss", MainLoss(domain), summary);
  AddScalar(group + "perplexity_with_first_segment", domain.perplexity(), summary);
  AddIfMeasured(group + "bits_per_byte", MainBitsPerByte(domain), summary);
}

}  // namespace

std::string RecordOf(const Event& event) { return EventRecord(event.SerializeAsString()); }

Event VersionEvent(double wall_time) {
  Event event = NewEvent(wall_time, 0);
  event.set_file_version(std::string(kEventFileVersion));
  return event;
}

Event StartEvent(double wall_time, int64_t step) {
  Event event = NewEvent(wall_time, step);
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  return event;
}

Event StepEvent(const v1::StepMetrics& metrics) {
  Event event = NewEvent(metrics.time(), metrics.step());
  Summary* summary = event.mutable_summary();
  for (const SeriesValue& value : ValuesOf(metrics)) {
    const bool scalar = value.key.step != nullptr || value.key.layer_series != nullptr;
    if (scalar) AddScalar(TagOf(value.key), value.value, summary);
  }
  for (const v1::LayerRouting& layer : metrics.routing()) {
    AddHistogram(absl::StrFormat("routing/layer_%02d/weight_by_expert", layer.layer()),
                 layer.mean_weights(), summary);
    AddHistogram(absl::StrFormat("routing/layer_%02d/load_by_expert", layer.layer()), layer.load(),
                 summary);
  }
  for (const v1::LayerChoices& layer : metrics.layer_choices()) {
    AddHistogram(absl::StrFormat("mixing/layer_%02d/choice_by_layer", layer.layer()),
                 layer.shares(), summary);
  }
  for (int i = 0; i < metrics.dropout_rates_size(); ++i) {
    AddScalar(absl::StrFormat("dropout/layer_%02d/rate", i), metrics.dropout_rates(i), summary);
  }
  AddLossesByText(metrics, summary);
  return event;
}

Event TextEvent(double wall_time, int64_t step, std::string_view tag, std::string_view markdown) {
  Event event = NewEvent(wall_time, step);
  Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(std::string(tag));
  value->mutable_metadata()->mutable_plugin()->set_name("text");
  value->mutable_metadata()->set_data_class(Metadata::TENSOR);
  Tensor* tensor = value->mutable_tensor();
  tensor->set_type(Tensor::STRING);
  tensor->mutable_shape();
  tensor->add_string_value(std::string(markdown));
  return event;
}

Event EvaluationEvent(double wall_time, const v1::Evaluation& evaluation) {
  Event event = NewEvent(wall_time, evaluation.step());
  Summary* summary = event.mutable_summary();
  for (const v1::DomainEvaluation& domain : evaluation.domains()) {
    AddDomain(domain, domain.domain(), summary);
  }
  if (evaluation.has_total()) AddDomain(evaluation.total(), "all", summary);
  return event;
}

}  // namespace braid
