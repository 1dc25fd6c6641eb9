#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "report/html_text.h"
#include "report/layer_chart.h"
#include "report/report_sections.h"
#include "report/run_comparison.h"
#include "report/run_curves.h"
#include "report/svg_plot.h"

namespace braid {
namespace {

// With more runs, only the details of the first are expanded.
constexpr size_t kMaxOpen = 2;

// Returns the layers that were measured, which are those with experts.
std::vector<int> MeasuredLayers(const ReportRun& run) {
  std::vector<int> layers;
  for (const v1::StepMetrics& step : run.metrics) {
    for (int i = static_cast<int>(layers.size()); i < step.routing_size(); ++i) {
      layers.push_back(step.routing(i).layer());
    }
  }
  return layers;
}

std::string ChartOf(const ReportRun& run, const LayerMeasure& measure,
                    double (*value)(const v1::LayerRouting&)) {
  return RenderLayerChart(measure, run.title, MeasuredLayers(run), [&](int i) {
    std::vector<PlotPoint> points;
    for (const v1::StepMetrics& step : run.metrics) {
      if (i >= step.routing_size()) continue;
      points.push_back({static_cast<double>(step.num_tokens()), value(step.routing(i))});
    }
    return ForPlot(points);
  });
}

bool ChoosesTokens(const v1::RunSpec& spec) {
  return spec.model().routing().router() == v1::TOKEN_CHOICE;
}

std::string UtilizationOf(const ReportRun& run) {
  const double experts = run.spec.model().routing().num_experts();
  const std::string of_experts = absl::StrCat(" of ", experts);
  std::string charts = "<div class=\"grid2\">";
  const auto add = [&](const LayerMeasure& measure, double (*value)(const v1::LayerRouting&)) {
    absl::StrAppend(&charts, "<div>", ChartOf(run, measure, value), "</div>");
  };
  add({"Effective experts", of_experts, experts},
      [](const v1::LayerRouting& r) { return r.effective_experts(); });
  add({"Active experts", of_experts, experts},
      [](const v1::LayerRouting& r) { return static_cast<double>(r.active_experts()); });
  add({"Routing entropy", ", nats", std::log(std::max(experts, 1.0))},
      [](const v1::LayerRouting& r) { return r.entropy(); });
  add({"Cosine of experts", "", 1}, [](const v1::LayerRouting& r) { return r.expert_cosine(); });
  if (ChoosesTokens(run.spec)) {
    add({"Load of the busiest expert", ", times the mean", experts},
        [](const v1::LayerRouting& r) { return r.busiest_over_mean(); });
    add({"Entropy of loads", ", nats", std::log(std::max(experts, 1.0))},
        [](const v1::LayerRouting& r) { return r.load_entropy(); });
  }
  charts += "</div>\n";
  return charts.find("<svg") == std::string::npos ? "" : charts;
}

// Returns "6.6 (3.8 to 7.4)": the mean, minimum and maximum over the layers of the newest
// measurement.
std::string OverLayers(const v1::StepMetrics& step, int digits,
                       double (*value)(const v1::LayerRouting&)) {
  PlotRange range;
  double sum = 0;
  for (const v1::LayerRouting& layer : step.routing()) {
    range.Include(value(layer));
    sum += value(layer);
  }
  return WithInterval(sum / step.routing_size(), range.low, range.high, digits);
}

std::string NewestTable(std::span<const ReportRun> runs) {
  HtmlTable table{.header = {"run", "layers", "effective experts", "active experts",
                             "entropy, nats", "cosine of experts"},
                  .rows = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto newest =
        std::find_if(runs[i].metrics.rbegin(), runs[i].metrics.rend(),
                     [](const v1::StepMetrics& step) { return step.routing_size() > 0; });
    if (IsDense(runs[i].spec) || newest == runs[i].metrics.rend()) continue;
    table.rows.push_back(
        {{RunLabel(runs, i), absl::StrCat(newest->routing_size()),
          OverLayers(*newest, 2, [](const v1::LayerRouting& r) { return r.effective_experts(); }),
          OverLayers(
              *newest, 1,
              [](const v1::LayerRouting& r) { return static_cast<double>(r.active_experts()); }),
          OverLayers(*newest, 2, [](const v1::LayerRouting& r) { return r.entropy(); }),
          OverLayers(*newest, 3, [](const v1::LayerRouting& r) { return r.expert_cosine(); })}});
  }
  return table.rows.empty() ? "" : RenderTable(table);
}

// Returns the loads of the newest measurement of runs whose tokens choose experts.
std::string LoadTable(std::span<const ReportRun> runs) {
  HtmlTable table{.header = {"run", "layer", "share of pairs by expert, %", "busiest over mean",
                             "under a quarter of their share", "entropy, nats"},
                  .rows = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto newest =
        std::find_if(runs[i].metrics.rbegin(), runs[i].metrics.rend(),
                     [](const v1::StepMetrics& step) { return step.routing_size() > 0; });
    if (!ChoosesTokens(runs[i].spec) || newest == runs[i].metrics.rend()) continue;
    for (const v1::LayerRouting& layer : newest->routing()) {
      std::vector<std::string> loads;
      for (double load : layer.load()) loads.push_back(absl::StrFormat("%.1f", 100 * load));
      table.rows.push_back(
          {{RunLabel(runs, i), absl::StrCat(layer.layer()), absl::StrJoin(loads, " "),
            absl::StrFormat("%.2f", layer.busiest_over_mean()),
            absl::StrCat(layer.starved_experts()), absl::StrFormat("%.3f", layer.load_entropy())}});
    }
  }
  return table.rows.empty() ? "" : RenderTable(table);
}

}  // namespace

std::string UtilizationSection(std::span<const ReportRun> runs) {
  std::string facets;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (IsDense(runs[i].spec)) continue;
    facets +=
        RunDetails(runs, i, UtilizationOf(runs[i]), facets.empty() || runs.size() <= kMaxOpen);
  }
  return Section(
      "Expert utilization",
      "Effective experts: the exponential of the entropy of the mean routing weights of "
      "a batch; a layer with one effective expert has collapsed. Active experts: those "
      "that a decision of the last ten steps chose or, where none are chosen, gave a weight "
      "above 2/E. Cosine: the mean "
      "similarity of the parameters of two experts over all pairs, which is 1 after "
      "upcycling and decreases as experts diverge. The table has the newest measurement: "
      "mean, minimum and maximum over the layers.",
      facets.empty() ? "" : NewestTable(runs) + LoadTable(runs) + facets, "utilization");
}

}  // namespace braid
