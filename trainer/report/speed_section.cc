#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "trainer/report/html_text.h"
#include "trainer/report/report_sections.h"
#include "trainer/report/run_curves.h"

namespace braid {
namespace {

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
                                                      {"optimiser", &Times::optimizer},
                                                      {"waiting for ranks", &Times::communication},
                                                      {"data", &Times::data},
                                                      {"checkpoints", &Times::checkpoint},
                                                      {"other", &Times::other}}};

bool HasTimes(const ReportRun& run) {
  return !run.metrics.empty() && run.metrics.back().has_times();
}

std::string Percent(double share) {
  return std::isfinite(share) ? FormatFixed(100 * share, 1) + " %" : FormatFixed(share, 1);
}

double TotalOf(const ReportRun& run, double (Times::*seconds)() const) {
  double total = 0;
  for (const v1::StepMetrics& step : run.metrics) total += (step.times().*seconds)();
  return total;
}

HtmlTable::Row SpeedRow(std::span<const ReportRun> runs, size_t i) {
  const ReportRun& run = runs[i];
  HtmlTable::Row row{{RunLabel(runs, i), FormatCount(MedianSpeed(run.metrics)),
                      FormatFixed(Median(run.metrics, &v1::StepMetrics::gflops), 1),
                      Percent(Median(run.metrics, &v1::StepMetrics::model_flops_utilization)),
                      FormatFixed(run.metrics.back().peak_resident_mb(), 0)}};
  double all = 0;
  for (const TimeColumn& column : kTimeColumns) all += TotalOf(run, column.seconds);
  for (const TimeColumn& column : kTimeColumns) {
    row.cells.push_back(Percent(TotalOf(run, column.seconds) / all));
  }
  return row;
}

}  // namespace

std::string SpeedSection(std::span<const ReportRun> runs) {
  HtmlTable table{.header = {"run", "tokens/s", "GFLOP/s", "utilisation", "memory, MiB"},
                  .rows = {}};
  for (const TimeColumn& column : kTimeColumns) table.header.push_back(column.label);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (HasTimes(runs[i])) table.rows.push_back(SpeedRow(runs, i));
  }
  if (table.rows.empty()) return "";
  return Section("Speed",
                 "Medians over the steps, and where the time of rank 0 went. GFLOP/s count the "
                 "matrix products of a token's parameters, attention and merging; utilisation is "
                 "their share of what the same cores reach in matrix products alone. Memory is "
                 "the most that rank 0 had resident.",
                 RenderTable(table));
}

}  // namespace braid
