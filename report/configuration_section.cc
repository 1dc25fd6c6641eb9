#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/text_format.h"
#include "report/html_text.h"
#include "report/report_sections.h"

namespace braid {
namespace {

// With more runs, tables have one row per run instead of one column.
constexpr size_t kConfigurationMaxColumns = 3;
constexpr size_t kFieldsOfATable = 5;

// Field paths with their values, in the order of the schema.
using FlatConfig = std::vector<std::pair<std::string, std::string>>;

// Returns the elements of a repeated field as "1, 3", messages in braces.
std::string RepeatedText(const google::protobuf::Message& message,
                         const google::protobuf::FieldDescriptor* field) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::vector<std::string> values(message.GetReflection()->FieldSize(message, field));
  for (int i = 0; i < std::ssize(values); ++i) {
    printer.PrintFieldValueToString(message, field, i, &values[i]);
  }
  return values.empty() ? "none" : absl::StrJoin(values, ", ");
}

void Flatten(const google::protobuf::Message& message, const std::string& prefix,
             FlatConfig* flat) {
  const auto* reflection = message.GetReflection();
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = descriptor->field(i);
    const std::string path = prefix + field->name();
    if (field->is_repeated()) {
      flat->emplace_back(path, RepeatedText(message, field));
      continue;
    }
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      Flatten(reflection->GetMessage(message, field), path + ".", flat);
      continue;
    }
    std::string value;
    google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1, &value);
    flat->emplace_back(path, value);
  }
}

// One field in the flat configurations of all runs.
struct Field {
  std::string name;  // HTML
  std::vector<std::string> values;
  bool differs() const {
    return std::any_of(values.begin(), values.end(),
                       [&](const std::string& value) { return value != values.front(); });
  }
};

std::vector<Field> FieldsOf(std::span<const ReportRun> runs) {
  std::vector<Field> fields;
  for (const ReportRun& run : runs) {
    FlatConfig flat;
    Flatten(run.spec, "", &flat);
    fields.resize(flat.size());
    for (size_t i = 0; i < flat.size(); ++i) {
      fields[i].name = absl::StrCat("<code>", EscapeHtml(flat[i].first), "</code>");
      fields[i].values.push_back(EscapeHtml(flat[i].second));
    }
  }
  return fields;
}

// Returns a table with one row per field and one column per run.
std::string TableByField(std::span<const ReportRun> runs, std::span<const Field> fields) {
  HtmlTable table{.header = {"field"}, .rows = {}, .numeric = false};
  for (size_t i = 0; i < runs.size(); ++i) table.header.push_back(RunLabel(runs, i));
  for (const Field& field : fields) {
    HtmlTable::Row row{{field.name}, "differs"};
    row.cells.insert(row.cells.end(), field.values.begin(), field.values.end());
    table.rows.push_back(std::move(row));
  }
  return RenderTable(table);
}

// Returns tables of a few fields each with one row per run, which stay narrow with many runs.
std::string TablesByRun(std::span<const ReportRun> runs, std::span<const Field> fields) {
  std::string tables;
  for (size_t start = 0; start < fields.size(); start += kFieldsOfATable) {
    const auto some = fields.subspan(start, std::min(kFieldsOfATable, fields.size() - start));
    HtmlTable table{.header = {"run"}, .rows = {}, .numeric = false};
    for (const Field& field : some) table.header.push_back(field.name);
    for (size_t i = 0; i < runs.size(); ++i) {
      HtmlTable::Row row{{RunLabel(runs, i)}};
      for (const Field& field : some) row.cells.push_back(field.values[i]);
      table.rows.push_back(std::move(row));
    }
    tables += RenderTable(table);
  }
  return tables;
}

std::string EqualFields(std::span<const Field> fields, const std::string& summary) {
  HtmlTable table{.header = {"field", "value"}, .rows = {}, .numeric = false};
  for (const Field& field : fields) {
    if (!field.differs()) table.rows.push_back({{field.name, field.values.front()}});
  }
  if (table.rows.empty()) return "";
  return absl::StrCat("<details><summary>", summary, " (", table.rows.size(), ")</summary>\n",
                      RenderTable(table), "</details>\n");
}

}  // namespace

std::string ConfigurationSection(std::span<const ReportRun> runs) {
  if (runs.empty()) return "";
  const std::vector<Field> fields = FieldsOf(runs);
  if (runs.size() == 1) {
    return Section("Configuration", "The complete configuration, including defaults.",
                   EqualFields(fields, "All settings"), "configuration");
  }
  std::vector<Field> differing;
  std::copy_if(fields.begin(), fields.end(), std::back_inserter(differing),
               [](const Field& field) { return field.differs(); });
  const std::string differences = differing.empty() ? ""
                                  : runs.size() <= kConfigurationMaxColumns
                                      ? TableByField(runs, differing)
                                      : TablesByRun(runs, differing);
  return Section("Configuration", "The settings in which the runs differ, including defaults.",
                 differences + EqualFields(fields, "Settings that are equal in all runs"),
                 "configuration");
}

}  // namespace braid
