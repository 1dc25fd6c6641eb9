#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "base/utf8.h"
#include "report/html_text.h"
#include "report/plot_series.h"
#include "report/report_sections.h"
#include "report/svg_plot.h"

namespace braid {
namespace {

constexpr size_t kSampleBytes = 4000;

struct OrderingRow {
  const char* field;
  const char* label;
  int digits;
};
constexpr std::array<OrderingRow, 9> kOrderingRows = {{
    {"num_documents", "documents", 0},
    {"adjacent_cosine", "cosine of adjacent documents", 3},
    {"random_adjacent_cosine", "the same in random order", 3},
    {"adjacent_cosine_across_instances", "cosine across instance boundaries", 3},
    {"restarts", "restarts of the walk", 0},
    {"mean_path_length", "mean path length, documents", 1},
    {"domain_purity", "domain purity of instances", 3},
    {"random_domain_purity", "the same in random order", 3},
    {"recall_at_k", "recall of the neighbor search", 3},
}};

struct Dataset {
  std::string directory;
  nlohmann::json report;
};

std::vector<Dataset> DatasetsOf(std::span<const ReportRun> runs) {
  std::vector<Dataset> datasets;
  std::set<std::string> seen;
  for (const ReportRun& run : runs) {
    if (!seen.insert(run.spec.dataset_dir()).second) continue;
    nlohmann::json report =
        nlohmann::json::parse(run.ordering_report_json, nullptr, /*allow_exceptions=*/false);
    if (report.is_object()) datasets.push_back({run.spec.dataset_dir(), std::move(report)});
  }
  return datasets;
}

std::string OrderName(const Dataset& dataset) {
  const auto order = dataset.report.find("order");
  return order != dataset.report.end() && order->is_string() ? order->get<std::string>() : "";
}

double NumberOf(const nlohmann::json& report, const char* field) {
  const auto value = report.find(field);
  return value != report.end() && value->is_number() ? value->get<double>() : kNan;
}

// Returns the number that all datasets have in common, as those of one corpus have; NaN if they
// differ.
double CommonNumber(const std::vector<Dataset>& datasets, const char* field) {
  const double first = NumberOf(datasets[0].report, field);
  const bool common = std::ranges::all_of(
      datasets, [&](const Dataset& other) { return NumberOf(other.report, field) == first; });
  return common ? first : kNan;
}

// Returns a chart that compares the order with a random order of the same documents.
std::string OrderingChart(const std::vector<Dataset>& datasets) {
  IntervalChart chart{
      .description = "Similarity of adjacent documents in each order and in random order",
      .x_label = "0: unrelated, 1: equal",
      .labels = {"adjacent documents", "across instances", "domain purity"},
      .series = {},
      .references = {},
      .reference_name = "random order",
      .digits = 3};
  for (size_t i = 0; i < datasets.size(); ++i) {
    const nlohmann::json& report = datasets[i].report;
    chart.series.push_back(
        {OrderName(datasets[i]),
         // From the last color down, which differs from the colors of the first runs.
         kNumColors - 1 - static_cast<int>(i % kNumColors),
         {NumberOf(report, "adjacent_cosine"), NumberOf(report, "adjacent_cosine_across_instances"),
          NumberOf(report, "domain_purity")}});
  }
  chart.references = {CommonNumber(datasets, "random_adjacent_cosine"), kNan,
                      CommonNumber(datasets, "random_domain_purity")};
  return RenderForBothWidths(chart);
}

std::string OrderingCell(const nlohmann::json& report, const OrderingRow& row) {
  return FormatFixed(NumberOf(report, row.field), row.digits);
}

std::string SampleOf(const std::string& name, const std::string& text) {
  if (text.empty()) return "";
  const bool cut = text.size() > kSampleBytes;
  return absl::StrCat(
      name.empty() ? "" : absl::StrCat("<p class=\"path\">", EscapeHtml(name), "</p>"), "<pre>",
      EscapeHtml(text.substr(0, Utf8PrefixLength(text, kSampleBytes))), cut ? "\n\xE2\x80\xA6" : "",
      "</pre>\n");
}

}  // namespace

std::string OrderingSection(std::span<const ReportRun> runs) {
  const std::vector<Dataset> datasets = DatasetsOf(runs);
  if (datasets.empty()) return "";
  HtmlTable table{.header = {""}, .rows = {}};
  for (const Dataset& dataset : datasets) {
    table.header.push_back(absl::StrCat(EscapeHtml(OrderName(dataset)), "<br><span class=\"path\">",
                                        EscapeHtml(dataset.directory), "</span>"));
  }
  for (const OrderingRow& row : kOrderingRows) {
    HtmlTable::Row cells{{row.label}};
    for (const Dataset& dataset : datasets) {
      cells.cells.push_back(OrderingCell(dataset.report, row));
    }
    table.rows.push_back(std::move(cells));
  }
  return Section("Order of the documents",
                 "Similarity of adjacent documents in the training order. Documents of the same "
                 "instance should be related; adjacent instances should be diverse.",
                 OrderingChart(datasets) + RenderTable(table), "order");
}

std::string SampleSection(std::span<const ReportRun> runs) {
  std::string body;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::string samples = SampleOf("", runs[i].sample_text);
    for (const ReportSample& sample : runs[i].more_samples) {
      samples += SampleOf(sample.name, sample.text);
    }
    body += RunDetails(runs, i, samples, runs.size() <= 4);
  }
  return Section("Sample", "Text that the trained model generated.", body, "sample");
}

}  // namespace braid
