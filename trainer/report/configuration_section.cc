#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "trainer/report/html_text.h"
#include "trainer/report/report_sections.h"

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

HtmlTable::Row ConfigurationRow(const std::vector<FlatConfig>& configs, size_t field) {
  HtmlTable::Row row{{absl::StrCat("<code>", EscapeHtml(configs[0][field].first), "</code>")}};
  for (const FlatConfig& config : configs) {
    row.cells.push_back(EscapeHtml(config[field].second));
    if (config[field].second != configs[0][field].second) row.css_class = "differs";
  }
  return row;
}

}  // namespace

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
  if (runs.size() == 1)
    return Section("Configuration", "Every default filled in.", all, "configuration");
  return Section("Configuration", "Where the runs differ; every default filled in.",
                 (differences.rows.empty() ? "" : RenderTable(differences)) + all, "configuration");
}

}  // namespace braid
