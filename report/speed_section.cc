#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "report/html_text.h"
#include "report/report_sections.h"
#include "report/run_curves.h"
#include "report/svg_plot.h"

namespace braid {
namespace {

// With more runs, the faint curves of single steps would hide the others.
constexpr size_t kSpeedMaxRawRuns = 4;
constexpr int64_t kSpeedRawPieces = 200;

using Times = v1::StepTimes;

struct TimeColumn {
  const char* label;
  double (Times::*seconds)() const;
};
constexpr std::array<TimeColumn, 10> kTimeColumns = {{{"FFN", &Times::ffn},
                                                      {"merging", &Times::merge},
                                                      {"router", &Times::router},
                                                      {"attention", &Times::attention},
                                                      {"head", &Times::head},
                                                      {"optimizer", &Times::optimizer},
                                                      {"waiting for ranks", &Times::communication},
                                                      {"data", &Times::data},
                                                      {"checkpoints", &Times::checkpoint},
                                                      {"other", &Times::other}}};

bool HasTimes(const ReportRun& run) {
  return std::any_of(run.metrics.begin(), run.metrics.end(),
                     [](const v1::StepMetrics& step) { return step.has_times(); });
}

double TotalOf(const ReportRun& run, double (Times::*seconds)() const) {
  double total = 0;
  for (const v1::StepMetrics& step : run.metrics) total += (step.times().*seconds)();
  return total;
}

// Returns NaN if the value was never measured.
double Most(const ReportRun& run, double (v1::StepMetrics::*value)() const) {
  PlotRange range;
  for (const v1::StepMetrics& step : run.metrics) {
    if ((step.*value)() > 0) range.Include((step.*value)());
  }
  return range.empty() ? std::nan("") : range.high;
}

HtmlTable::Row SpeedRow(std::span<const ReportRun> runs, size_t i) {
  const ReportRun& run = runs[i];
  return {{RunLabel(runs, i), FormatCount(MedianSpeed(run.metrics)),
           FormatFixed(Median(run.metrics, &v1::StepMetrics::gflops), 1),
           FormatPercent(Median(run.metrics, &v1::StepMetrics::model_flops_utilization)),
           FormatFixed(Most(run, &v1::StepMetrics::peak_resident_mb), 0)}};
}

HtmlTable::Row TimesRow(std::span<const ReportRun> runs, size_t i) {
  const ReportRun& run = runs[i];
  HtmlTable::Row row{{RunLabel(runs, i)}};
  double all = 0;
  for (const TimeColumn& column : kTimeColumns) all += TotalOf(run, column.seconds);
  for (const TimeColumn& column : kTimeColumns) {
    row.cells.push_back(FormatPercent(TotalOf(run, column.seconds) / all));
  }
  return row;
}

// Returns the mean milliseconds of each part of a step.
std::string TimesChart(std::span<const ReportRun> runs) {
  StackedBars bars{.description = "Time of the parts of a step in each run",
                   .x_label = "ms per step, mean over the run, rank 0",
                   .unit = "ms",
                   .labels = {},
                   .parts = {},
                   .values = {},
                   .neutral_last = true,
                   .width = 760};
  for (const TimeColumn& column : kTimeColumns) bars.parts.push_back(column.label);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!HasTimes(runs[i])) continue;
    const double steps = static_cast<double>(
        std::count_if(runs[i].metrics.begin(), runs[i].metrics.end(),
                      [](const v1::StepMetrics& step) { return step.has_times(); }));
    bars.labels.push_back(RunName(runs, i));
    bars.css_classes.push_back(RunClass(i));
    std::vector<double>& values = bars.values.emplace_back();
    for (const TimeColumn& column : kTimeColumns) {
      values.push_back(1000 * TotalOf(runs[i], column.seconds) / steps);
    }
  }
  return RenderStackedBars(std::move(bars));
}

// Returns a field of the metrics over tokens. Zero means that it was not measured.
std::string CurveOf(std::span<const ReportRun> runs, LineChart chart,
                    double (v1::StepMetrics::*value)() const) {
  chart.x_label = "tokens";
  chart.y_min = 0;
  chart.width = 460;
  chart.height = 250;
  chart.counts = true;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<PlotPoint> points;
    for (const v1::StepMetrics& step : runs[i].metrics) {
      const double y = (step.*value)();
      if (y > 0) points.push_back({static_cast<double>(step.num_tokens()), y});
    }
    chart.series.push_back(
        {RunName(runs, i), static_cast<int>(i), ForPlot(points), {}, RunClass(i)});
    // A stall is a spike of a single step, which means would hide.
    if (runs.size() <= kSpeedMaxRawRuns)
      chart.series.back().raw = ThinExtremes(points, kSpeedRawPieces);
  }
  return RenderLineChart(chart);
}

std::string Curves(std::span<const ReportRun> runs) {
  const LineChart speed{.description = "Tokens per second of each run over tokens",
                        .x_label = "",
                        .y_label = "tokens/s",
                        .series = {}};
  const LineChart memory{.description = "Resident memory of rank 0 over tokens",
                         .x_label = "",
                         .y_label = "resident memory of rank 0, MiB",
                         .series = {}};
  return absl::StrCat("<div class=\"grid2\"><div>",
                      CurveOf(runs, speed, &v1::StepMetrics::tokens_per_second), "</div><div>",
                      CurveOf(runs, memory, &v1::StepMetrics::resident_mb), "</div></div>\n");
}

}  // namespace

std::string SpeedSection(std::span<const ReportRun> runs) {
  HtmlTable table{.header = {"run", "tokens/s", "GFLOP/s", "utilization", "memory, MiB"},
                  .rows = {}};
  HtmlTable times{.header = {"share of a step"}, .rows = {}};
  for (const TimeColumn& column : kTimeColumns) times.header.push_back(column.label);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].metrics.empty()) table.rows.push_back(SpeedRow(runs, i));
    if (HasTimes(runs[i])) times.rows.push_back(TimesRow(runs, i));
  }
  if (table.rows.empty()) return "";
  return Section("Speed",
                 "Medians over the steps, and the time that rank 0 spent in the parts of a step. "
                 "GFLOP/s count the matrix products of parameters, attention and merging. "
                 "Utilization is their share of the speed of matrix products alone on the same "
                 "cores. Memory is the peak resident memory of rank 0. A dash means that the value "
                 "was not measured.",
                 Curves(runs) + RenderTable(table) + TimesChart(runs) +
                     (times.rows.empty() ? "" : RenderTable(times)),
                 "speed");
}

}  // namespace braid
