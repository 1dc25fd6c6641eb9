#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "trainer/model_config.h"
#include "trainer/report/html_text.h"
#include "trainer/report/report_sections.h"
#include "trainer/report/run_curves.h"
#include "trainer/report/svg_plot.h"

namespace braid {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kShownLayers = 8;
// The steep fall at the start would leave no room for the differences that matter.
constexpr double kSettling = 0.1;

struct ModelSize {
  double total = kNan;
  double active = kNan;
};

ModelSize SizeOf(const v1::RunSpec& spec) {
  const absl::StatusOr<v1::ModelConfig> model = ResolveModelConfig(spec.model());
  if (!model.ok()) return {};
  const v1::DescribeModelResponse description = DescribeModel(*model);
  return {static_cast<double>(description.num_parameters()),
          static_cast<double>(description.num_active_parameters())};
}

double MainPerplexity(const ReportRun& run) {
  return run.evaluation ? run.evaluation->total().perplexity_after_first_segment() : kNan;
}

double HeldOutGain(const ReportRun& dense, const ReportRun& moe) {
  if (!dense.evaluation || !moe.evaluation) return kNan;
  return dense.evaluation->total().loss_after_first_segment() -
         moe.evaluation->total().loss_after_first_segment();
}

std::string StepsOf(const ReportRun& run) {
  const int64_t done = run.metrics.empty() ? 0 : run.metrics.back().step();
  return done == run.spec.num_steps() ? absl::StrCat(done)
                                      : absl::StrCat(done, " of ", run.spec.num_steps());
}

HtmlTable::Row RunRow(std::span<const ReportRun> runs, size_t i) {
  const ReportRun& run = runs[i];
  const ModelSize size = SizeOf(run.spec);
  const double tokens =
      run.metrics.empty() ? 0 : static_cast<double>(run.metrics.back().num_tokens());
  return {{RunLabel(runs, i),
           IsDense(run.spec) ? "dense" : absl::StrCat(run.spec.model().routing().num_experts()),
           FormatCount(size.total), FormatCount(size.active), StepsOf(run), FormatCount(tokens),
           FormatFixed(LateMean(LossCurve(run.metrics)), 3), FormatFixed(MainPerplexity(run), 2),
           FormatCount(MedianSpeed(run.metrics))}};
}

std::string DifferenceChart(std::span<const ReportRun> runs,
                            const std::vector<std::pair<size_t, size_t>>& pairs) {
  LineChart chart{.description = "Training loss of the dense model minus that of the MoE",
                  .x_label = "tokens",
                  .y_label = "dense \xE2\x88\x92 MoE, nats per token",
                  .series = {},
                  .y_min = 0,
                  .height = 240};
  for (const auto& [dense, moe] : pairs) {
    chart.series.push_back({absl::StrCat(runs[dense].title, " \xE2\x88\x92 ", runs[moe].title),
                            static_cast<int>(moe),
                            ForPlot(LossDifference(runs[dense].metrics, runs[moe].metrics))});
  }
  return RenderLineChart(chart);
}

// Evenly spaced layers, the first and the last among them.
std::vector<int> ShownLayers(int num_layers) {
  std::vector<int> layers;
  const int count = std::min(num_layers, kShownLayers);
  for (int i = 0; i < count; ++i) {
    layers.push_back(count == 1 ? 0 : i * (num_layers - 1) / (count - 1));
  }
  return layers;
}

// The layer behind place `i` of the run's measurements; layers without experts have none.
int LayerAt(const ReportRun& run, int i) {
  for (const v1::StepMetrics& step : run.metrics) {
    if (i < step.routing_size()) return step.routing(i).layer();
  }
  return i;
}

// A number of every layer between 0 and `high`.
struct LayerValue {
  std::string name, unit;
  double high;
  double (*of)(const v1::LayerRouting&);
};

LineChart LayerChart(const ReportRun& run, const LayerValue& value) {
  int num_layers = 0;
  for (const v1::StepMetrics& step : run.metrics) {
    num_layers = std::max(num_layers, step.routing_size());
  }
  LineChart chart{.description = absl::StrCat(value.name, " of each layer during ", run.title),
                  .x_label = "tokens",
                  .y_label = absl::StrCat(value.name, value.unit),
                  .series = {},
                  .digits = 2,
                  .y_min = 0,
                  .y_max = value.high,
                  .width = 420,
                  .height = 230};
  for (const int i : ShownLayers(num_layers)) {
    PlotSeries series{
        absl::StrCat("layer ", LayerAt(run, i)), static_cast<int>(chart.series.size()), {}};
    for (const v1::StepMetrics& step : run.metrics) {
      if (i >= step.routing_size()) continue;
      series.points.push_back({static_cast<double>(step.num_tokens()), value.of(step.routing(i))});
    }
    series.points = ForPlot(series.points);
    chart.series.push_back(std::move(series));
  }
  return chart;
}

std::string UtilisationOf(std::span<const ReportRun> runs, size_t i) {
  const double experts = runs[i].spec.model().routing().num_experts();
  const std::string of_experts = absl::StrCat(" of ", experts);
  const LayerValue values[] = {
      {"Effective experts", of_experts, experts,
       [](const v1::LayerRouting& r) { return r.effective_experts(); }},
      {"Active experts", of_experts, experts,
       [](const v1::LayerRouting& r) { return static_cast<double>(r.active_experts()); }},
      {"Routing entropy", ", nats", std::log(std::max(experts, 1.0)),
       [](const v1::LayerRouting& r) { return r.entropy(); }},
      {"Cosine of experts", "", 1, [](const v1::LayerRouting& r) { return r.expert_cosine(); }}};
  std::string charts = "<div class=\"grid2\">";
  for (const LayerValue& value : values) {
    absl::StrAppend(&charts, "<div>", RenderLineChart(LayerChart(runs[i], value)), "</div>");
  }
  charts += "</div>\n";
  if (charts.find("<svg") == std::string::npos) return "";
  return absl::StrCat("<h3>", RunLabel(runs, i), "</h3>\n", charts);
}

}  // namespace

std::string RunTableSection(std::span<const ReportRun> runs) {
  HtmlTable table{.header = {"run", "experts", "parameters", "active", "steps", "tokens",
                             "train loss", "held-out perplexity", "tokens/s"},
                  .rows = {}};
  for (size_t i = 0; i < runs.size(); ++i) table.rows.push_back(RunRow(runs, i));
  return Section("Runs",
                 "Train loss is the mean of the last tenth of the run, in nats per token; "
                 "perplexity is over all held-out domains. Both leave out the first segment.",
                 RenderTable(table));
}

std::string GainSection(std::span<const ReportRun> runs) {
  const std::vector<std::pair<size_t, size_t>> pairs = PairRuns(runs);
  if (pairs.empty()) return "";
  HtmlTable table{
      .header = {"dense \xE2\x88\x92 MoE", "train gain", "held-out gain", "held-out perplexity"},
      .rows = {}};
  for (const auto& [dense, moe] : pairs) {
    table.rows.push_back(
        {{absl::StrCat(RunLabel(runs, dense), " \xE2\x88\x92 ", RunLabel(runs, moe)),
          FormatSigned(LateMean(LossDifference(runs[dense].metrics, runs[moe].metrics)), 3),
          FormatSigned(HeldOutGain(runs[dense], runs[moe]), 3),
          absl::StrCat(FormatFixed(MainPerplexity(runs[dense]), 2), " \xE2\x86\x92 ",
                       FormatFixed(MainPerplexity(runs[moe]), 2))}});
  }
  return Section("Gain of the experts",
                 "Dense minus MoE loss in nats per token, for runs that saw the same sequences in "
                 "the same order and started from the same weights: above zero, the experts help. "
                 "Differences of a pair are comparable; losses of runs with other seeds or data "
                 "are not.",
                 RenderTable(table) + DifferenceChart(runs, pairs));
}

std::string LossSection(std::span<const ReportRun> runs) {
  LineChart chart{.description = "Training loss of each run over the tokens it has seen",
                  .x_label = "tokens",
                  .y_label = "loss, nats per token",
                  .series = {},
                  .settling = kSettling,
                  .height = 340};
  for (size_t i = 0; i < runs.size(); ++i) {
    chart.series.push_back(
        {runs[i].title, static_cast<int>(i), ForPlot(LossCurve(runs[i].metrics))});
  }
  return Section(
      "Training loss",
      "Without the first segment of each sequence, smoothed over a fortieth of the run. The "
      "scale is that of the time after the first tenth.",
      RenderLineChart(chart));
}

std::string UtilisationSection(std::span<const ReportRun> runs) {
  std::string body;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!IsDense(runs[i].spec)) body += UtilisationOf(runs, i);
  }
  return Section("Expert utilisation",
                 "Effective experts: the exponential of the entropy of the mean routing weights of "
                 "a batch; a layer that falls to one has collapsed. Active experts: those whose "
                 "weight exceeded 2/E for some segment of the last ten steps. Cosine: of the "
                 "parameters of two experts, over all pairs; it is 1 where the dense model was "
                 "copied and falls as experts part.",
                 body);
}

}  // namespace braid
