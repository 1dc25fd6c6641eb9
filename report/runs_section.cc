#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "model/config/model_config.h"
#include "report/html_text.h"
#include "report/loss_findings.h"
#include "report/plot_series.h"
#include "report/report_sections.h"
#include "report/run_comparison.h"
#include "report/run_curves.h"

namespace braid {
namespace {

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

std::string StepsOf(std::span<const ReportRun> runs, size_t i) {
  const ReportRun& run = runs[i];
  const int64_t done = run.metrics.empty() ? 0 : run.metrics.back().step();
  std::string text = absl::StrCat(done);
  if (done != run.spec.num_steps()) absl::StrAppend(&text, " of ", run.spec.num_steps());
  if (run.life.state == v1::RUN_FAILED) text += ", failed";
  if (run.life.state == v1::RUN_STOPPED) text += ", stopped";
  if (OutcomeOf(runs, i).diverged_at) text += ", diverged";
  return text;
}

// Returns the held-out perplexity, with its step when that is not the newest.
std::string PerplexityCell(const ReportRun& run) {
  const std::string perplexity = FormatFixed(MainPerplexity(run), 2);
  if (run.evaluation_note.empty()) return perplexity;
  return absl::StrCat(perplexity, "<br/><span class=\"interval\">at step ", run.evaluation->step(),
                      "</span>");
}

// Returns the newest accuracy on the validation examples; nothing without any.
std::optional<double> AccuracyOf(const ReportRun& run) {
  for (auto step = run.metrics.rbegin(); step != run.metrics.rend(); ++step) {
    if (step->validation().has_accuracy()) return step->validation().accuracy();
  }
  return std::nullopt;
}

HtmlTable::Row RunRow(std::span<const ReportRun> runs, size_t i) {
  const ReportRun& run = runs[i];
  const ModelSize size = SizeOf(run.spec);
  const double tokens =
      run.metrics.empty() ? 0 : static_cast<double>(run.metrics.back().num_tokens());
  return {{RunLabel(runs, i),
           IsDense(run.spec) ? "dense" : absl::StrCat(run.spec.model().routing().num_experts()),
           FormatCount(size.total), FormatCount(size.active), StepsOf(runs, i), FormatCount(tokens),
           FormatFixed(LateMean(LossCurve(run.metrics)), 3), PerplexityCell(run),
           FormatCount(MedianSpeed(run.metrics))}};
}

}  // namespace

std::string RunTableSection(std::span<const ReportRun> runs) {
  HtmlTable table{.header = {"run", "experts", "parameters", "active", "steps", "tokens",
                             "train loss", "held-out perplexity", "tokens/s"},
                  .rows = {}};
  for (size_t i = 0; i < runs.size(); ++i) table.rows.push_back(RunRow(runs, i));
  if (std::ranges::any_of(runs, [](const ReportRun& run) { return AccuracyOf(run).has_value(); })) {
    table.header.push_back("validation accuracy, %");
    for (size_t i = 0; i < runs.size(); ++i) {
      const std::optional<double> accuracy = AccuracyOf(runs[i]);
      table.rows[i].cells.push_back(accuracy ? FormatFixed(100 * *accuracy, 1) : "");
    }
  }
  return Section(
      "Runs",
      "The train loss is the mean over the last tenth of the run in nats per token, the "
      "perplexity is over all held-out domains. Both exclude the first segment of sequences "
      "that have several.",
      RenderTable(table), "runs");
}

}  // namespace braid
