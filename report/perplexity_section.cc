#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "report/report_sections.h"
#include "report/svg_plot.h"
#include "runs/main_figures.h"

namespace braid {
namespace {

// More bars in a group are hard to distinguish; dots on a scale without zero replace them.
constexpr size_t kMaxBars = 4;
// With more runs, tables have one row per run instead of one column.
constexpr size_t kPerplexityMaxColumns = 5;
// Name of the totals in tables.
constexpr char kAll[] = "all";

const v1::DomainEvaluation* FindDomain(const ReportRun& run, const std::string& domain) {
  if (!run.evaluation) return nullptr;
  for (const v1::DomainEvaluation& one : run.evaluation->domains()) {
    if (one.domain() == domain) return &one;
  }
  return nullptr;
}

// Returns the domains in the order of their first occurrence in the runs.
std::vector<std::string> AllDomains(std::span<const ReportRun> runs) {
  std::vector<std::string> domains;
  for (const ReportRun& run : runs) {
    if (!run.evaluation) continue;
    for (const v1::DomainEvaluation& one : run.evaluation->domains()) {
      if (std::find(domains.begin(), domains.end(), one.domain()) == domains.end()) {
        domains.push_back(one.domain());
      }
    }
  }
  return domains;
}

struct Score {
  double value = kNan, low = kNan, high = kNan;
};

Score WithEnds(double value, const v1::Interval* interval) {
  if (!interval) return {value};
  return {value, interval->low(), interval->high()};
}

Score PerplexityScore(const v1::DomainEvaluation& domain) {
  return WithEnds(MainPerplexity(domain), domain.has_perplexity_after_first_segment_interval()
                                              ? &domain.perplexity_after_first_segment_interval()
                                              : nullptr);
}

Score BitsScore(const v1::DomainEvaluation& domain) {
  return WithEnds(MainBitsPerByte(domain),
                  domain.has_bits_per_byte_after_first_segment_interval()
                      ? &domain.bits_per_byte_after_first_segment_interval()
                      : nullptr);
}

Score FullPerplexity(const v1::DomainEvaluation& domain) {
  return WithEnds(domain.perplexity(),
                  domain.has_perplexity_interval() ? &domain.perplexity_interval() : nullptr);
}

// One score of each run that was evaluated.
struct Line {
  std::string label;  // HTML
  std::vector<Score> scores;
  std::string css_class = {};
};

Line LineOf(std::span<const ReportRun> runs, const std::string& label, const std::string& domain,
            Score (*score)(const v1::DomainEvaluation&), const std::string& css_class = "") {
  Line line{label, {}, css_class};
  for (const ReportRun& run : runs) {
    if (!run.evaluation) continue;
    const v1::DomainEvaluation* found =
        domain.empty() ? &run.evaluation->total() : FindDomain(run, domain);
    line.scores.push_back(found ? score(*found) : Score{});
  }
  return line;
}

std::vector<Line> Lines(std::span<const ReportRun> runs, const std::vector<std::string>& domains,
                        Score (*score)(const v1::DomainEvaluation&)) {
  std::vector<Line> lines;
  // The total comes first, so that it is visible with any number of domains.
  lines.push_back(LineOf(runs, kAll, "", score, "total"));
  for (const std::string& domain : domains) {
    lines.push_back(LineOf(runs, EscapeHtml(domain), domain, score));
  }
  return lines;
}

// Returns the cell; the lowest score of a line is bold if no other lies within its interval.
std::string CellOf(const Line& line, size_t run, int digits) {
  const Score& score = line.scores[run];
  const std::string text = WithInterval(score.value, score.low, score.high, digits);
  const bool best = line.scores.size() > 1 &&
                    std::none_of(line.scores.begin(), line.scores.end(), [&](const Score& other) {
                      const double limit = std::isfinite(score.high) ? score.high : score.value;
                      return &other != &score && other.value <= limit;
                    });
  return best && std::isfinite(score.value) ? absl::StrCat("<strong>", text, "</strong>") : text;
}

std::string TableOf(std::span<const ReportRun> runs, const std::vector<Line>& lines, int digits) {
  std::vector<std::string> labels;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].evaluation) labels.push_back(RunLabel(runs, i));
  }
  HtmlTable table{.header = {}, .rows = {}};
  if (labels.size() <= kPerplexityMaxColumns) {
    table.header = {"domain"};
    table.header.insert(table.header.end(), labels.begin(), labels.end());
    for (const Line& line : lines) {
      HtmlTable::Row row{{line.label}, line.css_class};
      for (size_t i = 0; i < labels.size(); ++i) row.cells.push_back(CellOf(line, i, digits));
      table.rows.push_back(std::move(row));
    }
    return RenderTable(table);
  }
  table.header = {"run"};
  for (const Line& line : lines) table.header.push_back(line.label);
  for (size_t i = 0; i < labels.size(); ++i) {
    HtmlTable::Row row{{labels[i]}};
    for (const Line& line : lines) row.cells.push_back(CellOf(line, i, digits));
    table.rows.push_back(std::move(row));
  }
  return RenderTable(table);
}

// Returns bars or dots of the main perplexity.
std::string ChartOf(std::span<const ReportRun> runs, const std::vector<std::string>& domains) {
  IntervalChart chart;
  chart.marks = runs.size() <= kMaxBars ? IntervalChart::Marks::kBars : IntervalChart::Marks::kDots;
  chart.description = "Held-out perplexity of each run by domain";
  chart.x_label = "perplexity, lower is better";
  chart.labels = domains;
  chart.width = 760;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].evaluation) continue;
    IntervalChart::Series series{};
    series.name = RunName(runs, i);
    series.color = static_cast<int>(i);
    series.css_class = RunClass(i);
    for (const std::string& domain : domains) {
      const v1::DomainEvaluation* found = FindDomain(runs[i], domain);
      const Score score = found ? PerplexityScore(*found) : Score{};
      series.values.push_back(score.value);
      series.lows.push_back(score.low);
      series.highs.push_back(score.high);
    }
    chart.series.push_back(std::move(series));
  }
  return RenderForBothWidths(std::move(chart));
}

std::string BitsTable(std::span<const ReportRun> runs, const std::vector<std::string>& domains) {
  const std::vector<Line> lines = Lines(runs, domains, BitsScore);
  const bool any = std::any_of(lines.begin(), lines.end(), [](const Line& line) {
    return std::any_of(line.scores.begin(), line.scores.end(),
                       [](const Score& score) { return std::isfinite(score.value); });
  });
  if (!any) return "";
  return absl::StrCat("<details><summary>Bits per byte (independent of the tokenizer)</summary>\n",
                      TableOf(runs, lines, 3), "</details>\n");
}

// Returns a line of the loss without first segments against the number of active experts for each
// run that was evaluated with several; "" without one.
std::string ActiveExpertsChart(std::span<const ReportRun> runs) {
  LineChart chart;
  chart.description = "Held-out loss of each run by number of active experts";
  chart.x_label = "active experts per token";
  chart.y_label = "loss, nats per token";
  HtmlTable table{.header = {"run", "step", "active experts", "loss", "perplexity"}, .rows = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    PlotSeries series{.name = RunName(runs, i), .color = static_cast<int>(i), .points = {}};
    series.css_class = RunClass(i);
    for (const v1::Evaluation& evaluation : runs[i].by_active_experts.evaluations()) {
      const double loss = MainLoss(evaluation.total());
      series.points.push_back({static_cast<double>(evaluation.active_experts()), loss});
      table.rows.push_back(
          {{RunLabel(runs, i), absl::StrCat(evaluation.step()),
            absl::StrCat(evaluation.active_experts()), WithInterval(loss, kNan, kNan, 3),
            WithInterval(MainPerplexity(evaluation.total()), kNan, kNan, 2)}});
    }
    if (series.points.empty()) continue;
    std::ranges::stable_sort(series.points, {}, &PlotPoint::x);
    chart.series.push_back(std::move(series));
  }
  if (chart.series.empty()) return "";
  return absl::StrCat("<h3>Loss by number of active experts</h3>\n", RenderForBothWidths(chart),
                      RenderTable(table));
}

bool HasIntervals(std::span<const ReportRun> runs) {
  return std::any_of(runs.begin(), runs.end(), [](const ReportRun& run) {
    return run.evaluation && run.evaluation->total().has_perplexity_after_first_segment_interval();
  });
}

}  // namespace

std::string PerplexitySection(std::span<const ReportRun> runs) {
  const std::vector<std::string> domains = AllDomains(runs);
  const std::string by_active_experts = ActiveExpertsChart(runs);
  if (domains.empty() && by_active_experts.empty()) return "";
  std::vector<Line> lines = Lines(runs, domains, PerplexityScore);
  lines.push_back(LineOf(runs, "all, with the first segment", "", FullPerplexity, "muted"));
  return Section(
      "Held-out perplexity by domain",
      absl::StrCat("On the held-out split, without the first segment of each window.<sup><a "
                   "href=\"#first-segment\">1</a></sup>",
                   HasIntervals(runs)
                       ? " Whiskers and small print: 95\xC2\xA0% bootstrap intervals over windows."
                       : ""),
      RunNotes(runs, &ReportRun::evaluation_note) + SelfRoutingNotes(runs) +
          (domains.empty()
               ? ""
               : ChartOf(runs, domains) + TableOf(runs, lines, 2) + BitsTable(runs, domains)) +
          by_active_experts,
      "perplexity");
}

}  // namespace braid
