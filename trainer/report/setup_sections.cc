#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "trainer/report/html_text.h"
#include "trainer/report/report_sections.h"
#include "trainer/report/svg_plot.h"

namespace braid {
namespace {

// Field path to value, in the order of the schema.
using FlatConfig = std::vector<std::pair<std::string, std::string>>;

void Flatten(const google::protobuf::Message& message, const std::string& prefix,
             FlatConfig* flat) {
  const auto* reflection = message.GetReflection();
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = descriptor->field(i);
    const std::string path = prefix + field->name();
    if (field->is_repeated()) continue;
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      Flatten(reflection->GetMessage(message, field), path + ".", flat);
      continue;
    }
    std::string value;
    google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1, &value);
    flat->emplace_back(path, value);
  }
}

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
    {"recall_at_k", "recall of the neighbour search", 3},
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

std::string OrderingCell(const nlohmann::json& report, const OrderingRow& row) {
  const auto value = report.find(row.field);
  if (value == report.end() || !value->is_number()) return "\xE2\x80\x93";
  return FormatFixed(value->get<double>(), row.digits);
}

HtmlTable::Row ConfigurationRow(const std::vector<FlatConfig>& configs, size_t field) {
  HtmlTable::Row row{{absl::StrCat("<code>", EscapeHtml(configs[0][field].first), "</code>")}};
  for (const FlatConfig& config : configs) {
    row.cells.push_back(EscapeHtml(config[field].second));
    if (config[field].second != configs[0][field].second) row.css_class = "differs";
  }
  return row;
}

}  // namespace

std::string Section(const std::string& heading, const std::string& explanation,
                    const std::string& body) {
  if (body.empty()) return "";
  return absl::StrCat("<section>\n<h2>", heading, "</h2>\n<p class=\"note\">", explanation,
                      "</p>\n", body, "</section>\n");
}

std::string RunLabel(std::span<const ReportRun> runs, size_t run) {
  return absl::StrCat("<span class=\"run\">", RenderSwatch(static_cast<int>(run)),
                      EscapeHtml(runs[run].title), "</span>");
}

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
                 "How similar neighbours in the training order are: documents that share an "
                 "instance should be related, instances that follow each other diverse.",
                 RenderTable(table));
}

std::string ConfigurationSection(std::span<const ReportRun> runs) {
  if (runs.empty()) return "";
  std::vector<FlatConfig> configs(runs.size());
  HtmlTable table{.header = {"field"}, .rows = {}, .numeric = false};
  for (size_t i = 0; i < runs.size(); ++i) {
    Flatten(runs[i].spec, "", &configs[i]);
    table.header.push_back(RunLabel(runs, i));
  }
  HtmlTable differences = table;
  for (size_t field = 0; field < configs[0].size(); ++field) {
    table.rows.push_back(ConfigurationRow(configs, field));
    if (!table.rows.back().css_class.empty()) differences.rows.push_back(table.rows.back());
  }
  const std::string all = absl::StrCat("<details><summary>All ", table.rows.size(),
                                       " fields</summary>\n", RenderTable(table), "</details>\n");
  if (runs.size() == 1) return Section("Configuration", "Every default filled in.", all);
  return Section("Configuration", "Where the runs differ; every default filled in.",
                 (differences.rows.empty() ? "" : RenderTable(differences)) + all);
}

}  // namespace braid
