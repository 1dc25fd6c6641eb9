#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "trainer/report/html_text.h"
#include "trainer/report/report_sections.h"
#include "trainer/report/run_curves.h"
#include "trainer/report/svg_plot.h"

namespace braid {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kSampleBytes = 4000;
constexpr int kShownLayers = 8;

const v1::DomainEvaluation* FindDomain(const ReportRun& run, const std::string& domain) {
  if (!run.evaluation) return nullptr;
  for (const v1::DomainEvaluation& one : run.evaluation->domains()) {
    if (one.domain() == domain) return &one;
  }
  return nullptr;
}

double PerplexityOf(const ReportRun& run, const std::string& domain) {
  const v1::DomainEvaluation* found = FindDomain(run, domain);
  return found ? found->perplexity_after_first_segment() : kNan;
}

// In the order in which runs first name them.
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

std::string PerplexityTable(std::span<const ReportRun> runs,
                            const std::vector<std::string>& domains) {
  HtmlTable table{.header = {"domain"}, .rows = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].evaluation) table.header.push_back(RunLabel(runs, i));
  }
  for (const std::string& domain : domains) {
    HtmlTable::Row row{{EscapeHtml(domain)}};
    for (const ReportRun& run : runs) {
      if (run.evaluation) row.cells.push_back(FormatFixed(PerplexityOf(run, domain), 2));
    }
    table.rows.push_back(std::move(row));
  }
  HtmlTable::Row total{{"all"}, "total"};
  HtmlTable::Row leaking{{"all, with the first segment"}, "muted"};
  for (const ReportRun& run : runs) {
    if (!run.evaluation) continue;
    const v1::DomainEvaluation& all = run.evaluation->total();
    total.cells.push_back(FormatFixed(all.perplexity_after_first_segment(), 2));
    leaking.cells.push_back(FormatFixed(all.perplexity(), 2));
  }
  table.rows.push_back(std::move(total));
  table.rows.push_back(std::move(leaking));
  return RenderTable(table);
}

// Places of the layers in a run's routing, at most kShownLayers of them evenly spaced.
std::vector<int> ShownLayers(const ReportRun& run) {
  int num_layers = 0;
  for (const v1::DomainEvaluation& domain : run.evaluation->domains()) {
    num_layers = std::max(num_layers, domain.routing_size());
  }
  std::vector<int> layers;
  const int count = std::min(num_layers, kShownLayers);
  for (int i = 0; i < count; ++i) {
    layers.push_back(count == 1 ? 0 : i * (num_layers - 1) / (count - 1));
  }
  return layers;
}

// All layers of a run share one scale, so that a flat layer looks flat.
double LargestWeight(const ReportRun& run) {
  double largest = 0;
  for (const v1::DomainEvaluation& domain : run.evaluation->domains()) {
    for (const v1::LayerWeights& layer : domain.routing()) {
      for (const double weight : layer.weights()) largest = std::max(largest, weight);
    }
  }
  return largest;
}

// The layer behind place `i` of the run's routing; layers without experts have none.
int LayerAt(const ReportRun& run, int i) {
  for (const v1::DomainEvaluation& domain : run.evaluation->domains()) {
    if (i < domain.routing_size()) return domain.routing(i).layer();
  }
  return i;
}

HeatMap MapOf(const ReportRun& run, int i, double high) {
  HeatMap map{
      .description = absl::StrCat("Routing weights of layer ", LayerAt(run, i), " by domain"),
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

std::string RoutingOf(std::span<const ReportRun> runs, size_t i) {
  const ReportRun& run = runs[i];
  const double high = LargestWeight(run);
  if (!(high > 0)) return "";
  std::string out = absl::StrCat("<h3>", RunLabel(runs, i), "</h3>\n<div class=\"maps\">\n");
  for (const int place : ShownLayers(run)) {
    absl::StrAppend(&out, "<figure><figcaption>layer ", LayerAt(run, place), "</figcaption>",
                    RenderHeatMap(MapOf(run, place, high)), "</figure>\n");
  }
  return out + "</div>\n";
}

}  // namespace

std::string PerplexitySection(std::span<const ReportRun> runs) {
  const std::vector<std::string> domains = AllDomains(runs);
  if (domains.empty()) return "";
  BarChart chart{.description = "Held-out perplexity of each run by domain",
                 .x_label = "perplexity without the first segment (less is better)",
                 .labels = domains,
                 .series = {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].evaluation) continue;
    BarChart::Series series{runs[i].title, static_cast<int>(i), {}};
    for (const std::string& domain : domains) {
      series.values.push_back(PerplexityOf(runs[i], domain));
    }
    chart.series.push_back(std::move(series));
  }
  return Section("Held-out perplexity by domain",
                 "On documents that were kept out of training, without the first segment of each "
                 "window.<sup><a href=\"#first-segment\">1</a></sup>",
                 RenderBarChart(chart) + PerplexityTable(runs, domains));
}

std::string RoutingSection(std::span<const ReportRun> runs) {
  std::string body;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].evaluation && !IsDense(runs[i].spec)) body += RoutingOf(runs, i);
  }
  return Section("Routing by domain",
                 "Mean routing weight of each expert over the held-out segments of a domain. Rows "
                 "that differ show experts that specialise; equal rows, a layer that does not look "
                 "at the domain.",
                 body);
}

std::string SampleSection(std::span<const ReportRun> runs) {
  std::string body;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].sample_text.empty()) continue;
    const bool cut = runs[i].sample_text.size() > kSampleBytes;
    absl::StrAppend(&body, "<h3>", RunLabel(runs, i), "</h3>\n<pre>",
                    EscapeHtml(runs[i].sample_text.substr(0, kSampleBytes)),
                    cut ? "\n\xE2\x80\xA6" : "", "</pre>\n");
  }
  return Section("Sample", "Text that the trained model continues by itself.", body);
}

}  // namespace braid
