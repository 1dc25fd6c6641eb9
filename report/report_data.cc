#include "report/report_data.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/message_json.h"
#include "report/loss_findings.h"
#include "report/report_page.h"
#include "report/report_sections.h"
#include "report/run_comparison.h"
#include "report/run_curves.h"

namespace braid {
namespace {

using Json = nlohmann::ordered_json;

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json CurveJson(const std::vector<PlotPoint>& points) {
  Json tokens = Json::array(), values = Json::array();
  for (const PlotPoint& point : points) {
    tokens.push_back(Number(point.x));
    values.push_back(Number(point.y));
  }
  return {{"tokens", tokens}, {"values", values}};
}

// Replaces the numbers that the JSON of a message has as strings, since JSON cannot express them,
// by null: "NaN", "Infinity" and "-Infinity". A text field may have one of these as its value.
void NullNonFinite(const google::protobuf::Descriptor& type, Json* json) {
  using google::protobuf::FieldDescriptor;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto found = json->find(field.name());
    if (found == json->end() || field.is_map()) continue;
    const auto correct = [&field](Json* value) {
      const FieldDescriptor::CppType kind = field.cpp_type();
      const bool is_number =
          kind == FieldDescriptor::CPPTYPE_DOUBLE || kind == FieldDescriptor::CPPTYPE_FLOAT;
      if (is_number && value->is_string()) *value = nullptr;
      if (value->is_object()) NullNonFinite(*field.message_type(), value);
    };
    if (field.is_repeated()) {
      for (Json& element : *found) correct(&element);
    } else {
      correct(&*found);
    }
  }
}

Json MessageJson(const google::protobuf::Message& message) {
  const std::optional<std::string> text = MessageToJson(message);
  if (!text.has_value()) return nullptr;
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return nullptr;
  NullNonFinite(*message.GetDescriptor(), &json);
  return json;
}

std::vector<PlotPoint> SpeedCurve(const ReportRun& run) {
  std::vector<PlotPoint> points;
  for (const v1::StepMetrics& step : run.metrics) {
    points.push_back({static_cast<double>(step.num_tokens()), step.tokens_per_second()});
  }
  return ForPlot(points);
}

Json RunJson(std::span<const ReportRun> runs, size_t i) {
  const ReportRun& run = runs[i];
  const std::vector<PlotPoint> loss = LossCurve(run.metrics);
  Json json = {{"title", run.title},
               {"name", RunName(runs, i)},
               {"dense", IsDense(run.spec)},
               {"steps", run.metrics.empty() ? 0 : run.metrics.back().step()},
               {"tokens", run.metrics.empty() ? 0 : run.metrics.back().num_tokens()},
               {"train_loss", Number(LateMean(loss))},
               {"tokens_per_second", Number(MedianSpeed(run.metrics))},
               {"effective_training_time", Number(Goodput(run.life, run.metrics))},
               {"loss", CurveJson(ForPlot(loss))},
               {"speed", CurveJson(SpeedCurve(run))},
               {"spec", MessageJson(run.spec)}};
  if (run.evaluation) json["evaluation"] = MessageJson(*run.evaluation);
  if (run.tasks) json["tasks"] = MessageJson(*run.tasks);
  Json& incidents = json["incidents"] = Json::array();
  for (const v1::RunIncident& incident : run.life.incidents) {
    incidents.push_back(MessageJson(incident));
  }
  return json;
}

Json ComparisonsJson(std::span<const ReportRun> runs) {
  Json comparisons = Json::array();
  for (const auto& [base, other] : ComparablePairs(runs)) {
    const auto found = CompareLoss(LossCurve(runs[base].metrics), LossCurve(runs[other].metrics));
    // As on the page: the losses of a diverged run after that point are unknown.
    const bool diverged = OutcomeOf(runs, base).diverged_at || OutcomeOf(runs, other).diverged_at;
    if (!found || diverged) continue;
    comparisons.push_back(
        {{"base", runs[base].title},
         {"run", runs[other].title},
         {"common_tokens", Number(found->common_tokens)},
         {"loss_difference", Number(found->difference)},
         {"standard_error", Number(found->standard_error)},
         {"share_of_tokens",
          found->share_of_tokens ? Number(*found->share_of_tokens) : Json(nullptr)}});
  }
  return comparisons;
}

}  // namespace

std::string ReportData(std::span<const ReportRun> runs) {
  Json json;
  json["runs"] = Json::array();
  for (size_t i = 0; i < runs.size(); ++i) json["runs"].push_back(RunJson(runs, i));
  json["comparisons"] = ComparisonsJson(runs);
  json["left_out"] = LeftOut(runs);
  // Names may contain bytes that are not UTF-8.
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace braid
