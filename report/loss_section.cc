#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "report/html_text.h"
#include "report/loss_findings.h"
#include "report/plot_series.h"
#include "report/report_sections.h"
#include "report/run_comparison.h"
#include "report/run_curves.h"
#include "report/svg_plot.h"
#include "runs/main_figures.h"
#include "runs/step_remark.h"

namespace braid {
namespace {

// The y axis does not cover the steep fall at the start, which would hide later differences.
constexpr double kSettling = 0.1;
// With more runs, the faint curves of single steps would hide the others.
constexpr size_t kLossMaxRawRuns = 4;
constexpr int64_t kLossRawPieces = 400;
constexpr int64_t kTableRows = 10;
// With more runs, names at the ends of lines would overlap.
constexpr size_t kMaxDirectLabels = 16;

// Returns NaN if the runs were not evaluated after as many steps.
double HeldOutGain(const ReportRun& dense, const ReportRun& moe) {
  if (!dense.evaluation || !moe.evaluation) return kNan;
  if (dense.evaluation->step() != moe.evaluation->step()) return kNan;
  return MainLoss(dense.evaluation->total()) - MainLoss(moe.evaluation->total());
}

// Returns a dash if a run diverged or has no loss.
std::string TrainGain(std::span<const ReportRun> runs, size_t dense, size_t moe) {
  const auto found = CompareLoss(LossCurve(runs[dense].metrics), LossCurve(runs[moe].metrics));
  const bool diverged = OutcomeOf(runs, dense).diverged_at || OutcomeOf(runs, moe).diverged_at;
  if (!found || diverged) return FormatSigned(kNan, 3);
  return WithError(found->difference, found->standard_error);
}

std::string DifferenceChart(std::span<const ReportRun> runs,
                            const std::vector<std::pair<size_t, size_t>>& pairs) {
  LineChart chart{.description = "Training loss of the dense model minus that of the MoE",
                  .x_label = "tokens",
                  .y_label = "dense \xE2\x88\x92 MoE, nats per token",
                  .series = {},
                  .y_min = 0,
                  .width = 760,
                  .height = 260};
  for (const auto& [dense, moe] : pairs) {
    chart.series.push_back(
        {absl::StrCat(RunName(runs, dense), " \xE2\x88\x92 ", RunName(runs, moe)),
         static_cast<int>(moe),
         ForPlot(LossDifference(runs[dense].metrics, runs[moe].metrics)),
         {},
         RunClass(moe)});
  }
  return RenderForBothWidths(chart);
}

// Returns the tokens at a step; NaN if the metrics do not have the step.
double TokensAt(const ReportRun& run, int64_t step) {
  const auto found = std::lower_bound(
      run.metrics.begin(), run.metrics.end(), step,
      [](const v1::StepMetrics& metrics, int64_t value) { return metrics.step() < value; });
  return found == run.metrics.end() || found->step() != step
             ? kNan
             : static_cast<double>(found->num_tokens());
}

void AddSpikeMarks(std::span<const ReportRun> runs, size_t i, std::vector<PlotMark>* marks) {
  for (const v1::StepMetrics& metrics : runs[i].metrics) {
    if (!metrics.has_spike()) continue;
    marks->push_back({static_cast<double>(metrics.num_tokens()),
                      absl::StrCat(RunName(runs, i), ": ", StepRemark(metrics)),
                      static_cast<int>(i), RunClass(i)});
  }
}

std::vector<PlotMark> IncidentMarks(std::span<const ReportRun> runs) {
  std::vector<PlotMark> marks;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const v1::RunIncident& incident : runs[i].life.incidents) {
      const double tokens =
          incident.resumed_step() == 0 ? 0 : TokensAt(runs[i], incident.resumed_step());
      marks.push_back(
          {tokens,
           absl::StrCat(RunName(runs, i), ": ", IncidentText(incident.kind()), " at step ",
                        incident.step(), ", trained again from step ", incident.resumed_step()),
           static_cast<int>(i), RunClass(i)});
    }
  }
  for (size_t i = 0; i < runs.size(); ++i) AddSpikeMarks(runs, i, &marks);
  return marks;
}

LineChart LossChart(std::span<const ReportRun> runs) {
  LineChart chart{.description = "Training loss of each run over tokens",
                  .x_label = "tokens",
                  .y_label = "loss, nats per token",
                  .series = {},
                  .settling = kSettling,
                  .width = 760,
                  .height = 380,
                  .marks = IncidentMarks(runs),
                  .direct_labels = runs.size() > 1 && runs.size() <= kMaxDirectLabels};
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<PlotPoint> curve = LossCurve(runs[i].metrics);
    chart.series.push_back(
        {RunName(runs, i), static_cast<int>(i), ForPlot(curve), {}, RunClass(i)});
    if (runs.size() <= kLossMaxRawRuns)
      chart.series.back().raw = ThinExtremes(curve, kLossRawPieces);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<PlotPoint> curve = ValidationCurve(runs[i].metrics);
    if (curve.empty()) continue;
    // The colors of the runs, with the dashes that follow those of the runs.
    chart.series.push_back(
        {RunName(runs, i) + ", validation",
         static_cast<int>(i + (runs.size() + kNumColors - 1) / kNumColors * kNumColors),
         std::move(curve),
         {},
         RunClass(i)});
  }
  return chart;
}

// Returns the loss of the point nearest to `at`; NaN if it is farther away than `reach`.
double LossNear(std::span<const PlotPoint> points, double at, double reach) {
  double loss = kNan;
  for (const PlotPoint& point : points) {
    const double distance = std::abs(point.x - at);
    if (distance > reach) continue;
    reach = distance;
    loss = point.y;
  }
  return loss;
}

// Returns a table of the smoothed losses at evenly spaced tokens, for readers without a pointer.
// Those of validation are where they were measured.
std::string LossTable(const LineChart& chart) {
  double tokens = 0;
  for (const PlotSeries& series : chart.series) {
    if (!series.points.empty()) tokens = std::max(tokens, series.points.back().x);
  }
  HtmlTable table{.header = {"tokens"}, .rows = {}};
  for (const PlotSeries& series : chart.series) {
    table.header.push_back(absl::StrCat("<span class=\"run\">", RenderSwatch(series.color),
                                        EscapeHtml(series.name), "</span>"));
  }
  const double distance = tokens / kTableRows;
  for (int64_t i = 1; i <= kTableRows; ++i) {
    const double at = distance * static_cast<double>(i);
    HtmlTable::Row row{{FormatCount(at)}};
    for (const PlotSeries& series : chart.series) {
      row.cells.push_back(FormatFixed(LossNear(series.points, at, distance / 2), 3));
    }
    table.rows.push_back(std::move(row));
  }
  return absl::StrCat("<details><summary>Values</summary>\n", RenderTable(table), "</details>\n");
}

// Returns a table of the newest validation of each run by domain.
std::string ValidationTable(std::span<const ReportRun> runs) {
  HtmlTable table{.header = {"run", "dataset", "domain", "windows", "loss"}, .rows = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto newest =
        std::find_if(runs[i].metrics.rbegin(), runs[i].metrics.rend(),
                     [](const v1::StepMetrics& metrics) { return metrics.has_validation(); });
    if (newest == runs[i].metrics.rend()) continue;
    for (const v1::ValidationDomain& domain : newest->validation().domains()) {
      const std::string& dataset =
          domain.dataset().empty() ? runs[i].spec.dataset_dir() : domain.dataset();
      table.rows.push_back({{absl::StrCat(RunLabel(runs, i), ", step ", newest->step()),
                             EscapeHtml(dataset), EscapeHtml(domain.domain()),
                             absl::StrCat(domain.num_windows()), FormatFixed(MainLoss(domain), 3)},
                            RunClass(i)});
    }
  }
  if (table.rows.empty()) return "";
  return absl::StrCat("<details><summary>Last validation by domain</summary>\n", RenderTable(table),
                      "</details>\n");
}

}  // namespace

std::string GainSection(std::span<const ReportRun> runs) {
  const std::vector<std::pair<size_t, size_t>> pairs = PairRuns(runs);
  if (pairs.empty()) return "";
  HtmlTable table{
      .header = {"dense \xE2\x88\x92 MoE", "train gain", "held-out gain", "held-out perplexity"},
      .rows = {}};
  for (const auto& [dense, moe] : pairs) {
    table.rows.push_back(
        {{absl::StrCat(RunLabel(runs, dense), " \xE2\x88\x92 ", RunLabel(runs, moe)),
          TrainGain(runs, dense, moe), FormatSigned(HeldOutGain(runs[dense], runs[moe]), 3),
          absl::StrCat(FormatFixed(MainPerplexity(runs[dense]), 2), " \xE2\x86\x92 ",
                       FormatFixed(MainPerplexity(runs[moe]), 2))}});
  }
  return Section("Gain of the experts",
                 "Dense minus MoE loss in nats per token (train: mean over the last tenth \xC2\xB1 "
                 "standard error), for pairs of runs with the same sequences in the same order and "
                 "the same initial weights. Positive values mean that the experts help. Losses of "
                 "runs with different seeds or data are not comparable.",
                 RunNotes(runs, &ReportRun::evaluation_note) + SelfRoutingNotes(runs) +
                     RenderTable(table) + DifferenceChart(runs, pairs),
                 "gain");
}

std::string LossSection(std::span<const ReportRun> runs) {
  const LineChart chart = LossChart(runs);
  const std::string plot = RenderForBothWidths(chart);
  const std::string findings = LossFindings(runs);
  const bool has_error = findings.find("\xC2\xB1") != std::string::npos;
  return Section(
      "Training loss",
      absl::StrCat(
          "Without the first segment of each sequence that has several, smoothed over one "
          "fortieth of the run",
          runs.size() <= kLossMaxRawRuns ? "; single steps are faint" : "",
          ". Both axes are linear; the y axis is scaled to the losses after the "
          "first tenth.",
          has_error ? " \xC2\xB1 is the standard error over the steps of the last tenth." : ""),
      plot.empty()
          ? ""
          : SelfRoutingNotes(runs) + findings + plot + LossTable(chart) + ValidationTable(runs),
      "loss");
}

}  // namespace braid
