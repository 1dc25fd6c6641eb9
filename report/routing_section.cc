#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "report/html_text.h"
#include "report/report_sections.h"
#include "report/run_comparison.h"
#include "report/svg_plot.h"

namespace braid {
namespace {

constexpr size_t kRoutingShownLayers = 8;

// Returns the indices of at most kRoutingShownLayers layers in the routing of a run.
std::vector<size_t> ShownLayers(const ReportRun& run) {
  int num_layers = 0;
  for (const v1::DomainEvaluation& domain : run.evaluation->domains()) {
    num_layers = std::max(num_layers, domain.routing_size());
  }
  return EvenlySpaced(num_layers, kRoutingShownLayers);
}

// All layers of a run share one scale, so that a layer with equal weights looks uniform.
HeatTop TopOf(const ReportRun& run) {
  std::vector<double> weights;
  for (const v1::DomainEvaluation& domain : run.evaluation->domains()) {
    for (const v1::LayerWeights& layer : domain.routing()) {
      weights.insert(weights.end(), layer.weights().begin(), layer.weights().end());
    }
  }
  return HeatTopOf(std::move(weights));
}

// Returns the layer at index `i` of the routing of a run, which has only layers with experts.
int EvaluatedLayerAt(const ReportRun& run, int i) {
  for (const v1::DomainEvaluation& domain : run.evaluation->domains()) {
    if (i < domain.routing_size()) return domain.routing(i).layer();
  }
  return i;
}

HeatMap MapOf(const ReportRun& run, int i, double high) {
  HeatMap map{.description =
                  absl::StrCat("Routing weights of layer ", EvaluatedLayerAt(run, i), " by domain"),
              .column_label = "expert",
              .rows = {},
              .num_columns = 0,
              .values = {},
              .low = 0,
              .high = high};
  for (const v1::DomainEvaluation& domain : run.evaluation->domains()) {
    if (i >= domain.routing_size()) continue;
    const auto& weights = domain.routing(i).weights();
    map.rows.push_back(domain.domain());
    map.values.emplace_back(weights.begin(), weights.end());
    map.num_columns = std::max(map.num_columns, weights.size());
  }
  return map;
}

std::string MapsOf(const ReportRun& run) {
  const HeatTop top = TopOf(run);
  if (!(top.high > 0)) return "";
  std::string out = "<div class=\"maps\">\n";
  int num_experts = 1;
  for (const size_t at : ShownLayers(run)) {
    const int place = static_cast<int>(at);
    const HeatMap map = MapOf(run, place, top.high);
    num_experts = std::max(num_experts, map.num_columns);
    absl::StrAppend(&out, "<figure><figcaption>layer ", EvaluatedLayerAt(run, place),
                    "</figcaption>", RenderHeatMap(map), "</figure>\n");
  }
  return absl::StrCat(out, "</div>\n", RenderHeatScale(0, top, 1.0 / num_experts, "uniform"));
}

}  // namespace

std::string RoutingSection(std::span<const ReportRun> runs) {
  std::string body;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].evaluation || IsDense(runs[i].spec)) continue;
    body += RunDetails(runs, i, MapsOf(runs[i]), body.empty() || runs.size() <= 4);
  }
  return Section(
      "Routing by domain",
      "Mean routing weight of each expert over the held-out segments of a domain. Rows "
      "that differ show experts that specialize; equal rows show a layer whose routing does not "
      "depend on the domain. All maps of a run share one scale, which ends below single weights "
      "that are far above all others (\xE2\x89\xA5).",
      body, "routing");
}

}  // namespace braid
