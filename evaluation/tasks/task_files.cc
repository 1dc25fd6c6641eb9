#include "evaluation/tasks/task_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "base/utf8.h"
#include "evaluation/tasks/delimited_text.h"
#include "evaluation/tasks/field_rule.h"
#include "evaluation/tasks/xml_records.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kDeepestLevel = 32;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr char kEmptyFile[] = "the file is empty";

absl::Status Malformed(const std::string& where, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", message));
}

absl::StatusOr<std::string> ReadText(const fs::path& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return text;
}

// JSON and XML are checked where they are parsed.
absl::Status CheckUtf8(std::string_view text, const fs::path& path) {
  if (IsValidUtf8(text)) return absl::OkStatus();
  int64_t line = 1;
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    length = ValidCharacterLength(text.substr(at));
    if (length == 0) break;
    line += text[at] == '\n';
  }
  return Malformed(absl::StrCat(path.string(), ":", line),
                   "got bytes that are not UTF-8; convert the file with iconv");
}

absl::StatusOr<TaskRecord> ParseObject(absl::string_view text, const std::string& where) {
  absl::StatusOr<json> value = ParseStrictJson({text.data(), text.size()}, kDeepestLevel);
  if (!value.ok()) return Malformed(where, value.status().message());
  if (!value->is_object()) {
    return Malformed(where, absl::StrCat("got ", value->type_name(), ", expected an object {...}"));
  }
  return TaskRecord{*std::move(value), where};
}

absl::StatusOr<std::vector<TaskRecord>> ReadJsonLines(absl::string_view text,
                                                      const std::string& name) {
  std::vector<TaskRecord> records;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.find_first_not_of(" \t\r") == absl::string_view::npos) continue;
    ASSIGN_OR_RETURN(TaskRecord record, ParseObject(line, absl::StrCat(name, ":", number)));
    records.push_back(std::move(record));
  }
  return records;
}

absl::StatusOr<std::vector<TaskRecord>> ReadJson(absl::string_view text, const std::string& name,
                                                 const std::string& key) {
  absl::StatusOr<json> value = ParseStrictJson({text.data(), text.size()}, kDeepestLevel);
  if (!value.ok()) return Malformed(name, value.status().message());
  if (!key.empty()) {
    if (!value->is_object() || !value->contains(key)) {
      return Malformed(name, absl::StrCat("no key \"", key, "\", which should hold the records"));
    }
    // Moves through a temporary object, because the new value is part of the one it replaces.
    json inner = std::move((*value)[key]);
    *value = std::move(inner);
  }
  if (value->is_object()) return std::vector<TaskRecord>{{*std::move(value), name}};
  if (!value->is_array()) return Malformed(name, "expected an array of objects");
  std::vector<TaskRecord> records;
  for (json& element : *value) {
    const std::string where = absl::StrCat(name, ": record ", records.size() + 1);
    if (!element.is_object()) {
      return Malformed(where, absl::StrCat("got ", element.type_name(), ", expected an object"));
    }
    records.push_back({std::move(element), where});
  }
  return records;
}

absl::StatusOr<std::vector<DelimitedRow>> ReadRows(absl::string_view text, const std::string& name,
                                                   v1::FileFormat format) {
  if (format == v1::CSV_FILE) return ParseCsv(text, name);
  return ParseTsv(text);
}

// Columns without a name may be repeated, as no field refers to them.
absl::Status CheckHeader(const DelimitedRow& header, const std::string& name) {
  std::set<std::string> seen;
  for (const std::string& column : header.cells) {
    if (column.empty() || seen.insert(column).second) continue;
    return Malformed(absl::StrCat(name, ":", header.line),
                     absl::StrCat("got two columns \"", column, "\", expected one; rename one"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TaskRecord>> ReadTable(absl::string_view text, const std::string& name,
                                                  const v1::TaskFile& file) {
  ASSIGN_OR_RETURN(std::vector<DelimitedRow> rows, ReadRows(text, name, file.format()));
  std::vector<std::string> columns(file.columns().begin(), file.columns().end());
  if (file.header() && !rows.empty()) {
    RETURN_IF_ERROR(CheckHeader(rows[0], name));
    columns = rows[0].cells;
    rows.erase(rows.begin());
  }
  std::vector<TaskRecord> records;
  for (const DelimitedRow& row : rows) {
    TaskRecord record{json::object(), absl::StrCat(name, ":", row.line)};
    if (row.cells.size() != columns.size()) {
      return RecordError(record, absl::StrCat("got ", row.cells.size(), " cells, expected ",
                                              columns.size(), ": ", absl::StrJoin(columns, ", ")));
    }
    for (size_t i = 0; i < columns.size(); ++i) record.fields[columns[i]] = row.cells[i];
    records.push_back(std::move(record));
  }
  return records;
}

absl::StatusOr<std::vector<TaskRecord>> ReadOne(const v1::TaskFile& file, const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  if (file.format() == v1::JSONL_FILE) return ReadJsonLines(text, path.string());
  if (file.format() == v1::JSON_FILE) return ReadJson(text, path.string(), file.records());
  if (file.format() == v1::XML_FILE) return ParseXmlRecords(text, path.string(), file.records());
  RETURN_IF_ERROR(CheckUtf8(text, path));
  return ReadTable(text, path.string(), file);
}

absl::Status AddLabels(const fs::path& path, std::vector<TaskRecord>* records) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  RETURN_IF_ERROR(CheckUtf8(text, path));
  std::vector<std::string> labels = absl::StrSplit(text, '\n');
  for (std::string& label : labels) label = std::string(absl::StripAsciiWhitespace(label));
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  if (labels.size() != records->size()) {
    return Malformed(path.string(), absl::StrCat("got ", labels.size(), " labels, expected ",
                                                 records->size(), ", one per record"));
  }
  for (size_t i = 0; i < labels.size(); ++i) (*records)[i].fields["label"] = labels[i];
  return absl::OkStatus();
}

// Returns the list in a field of the record itself; nested paths are not supported, because an
// element replaces the list.
absl::StatusOr<const json*> ListOf(const TaskRecord& record, const std::string& field) {
  const auto list = record.fields.find(field);
  if (list == record.fields.end()) {
    return RecordError(record, absl::StrCat("no field \"", field,
                                            "\" for each, which expects a name, not a path"));
  }
  if (!list->is_array()) return RecordError(record, absl::StrCat("\"", field, "\" is not a list"));
  return &*list;
}

// Adds one record for each element of parallel lists.
absl::Status AddElements(const TaskRecord& record, const v1::TaskFile& file,
                         std::vector<TaskRecord>* records) {
  std::vector<const json*> lists;
  for (const std::string& field : file.each()) {
    ASSIGN_OR_RETURN(lists.emplace_back(), ListOf(record, field));
    if (lists.back()->size() == lists[0]->size()) continue;
    return RecordError(record,
                       absl::StrCat("\"", field, "\" has ", lists.back()->size(), " elements, \"",
                                    file.each(0), "\" has ", lists[0]->size()));
  }
  json shared = record.fields;  // without the lists, of which each element would have a copy
  for (const std::string& field : file.each()) shared.erase(field);
  for (size_t i = 0; i < lists[0]->size(); ++i) {
    TaskRecord element{shared, absl::StrCat(record.where, ": element ", i + 1)};
    for (size_t list = 0; list < lists.size(); ++list) {
      element.fields[file.each(static_cast<int>(list))] = (*lists[list])[i];
    }
    records->push_back(std::move(element));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FieldRule>> CreateRules(const v1::TaskFile& file,
                                                   const TaskFields& task_fields) {
  std::vector<FieldRule> rules;
  for (const TaskFields* fields : {&file.fields(), &task_fields}) {
    for (const v1::TaskField& field : *fields) {
      ASSIGN_OR_RETURN(FieldRule rule, FieldRule::Create(field, file.path()));
      rules.push_back(std::move(rule));
    }
  }
  return rules;
}

absl::StatusOr<std::vector<TaskRecord>> ApplyRules(std::vector<TaskRecord> records,
                                                   const std::vector<FieldRule>& rules) {
  std::vector<TaskRecord> kept;
  for (TaskRecord& record : records) {
    bool keep = true;
    for (const FieldRule& rule : rules) {
      ASSIGN_OR_RETURN(keep, rule.Apply(&record));
      if (!keep) break;
    }
    if (keep) kept.push_back(std::move(record));
  }
  return kept;
}

bool IsEmpty(const fs::path& path) {
  std::error_code error;
  return fs::file_size(path, error) == 0 && !error;
}

// Returns whether the first line names the columns that the format requires.
absl::StatusOr<bool> HeaderFits(const v1::TaskFile& file, const fs::path& path) {
  std::string line;
  std::ifstream stream(path, std::ios::binary);
  if (!std::getline(stream, line)) return false;
  if (line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
  ASSIGN_OR_RETURN(const auto rows, ReadRows(line, path.string(), file.format()));
  if (rows.empty()) return false;
  const std::vector<std::string>& names = rows[0].cells;
  return std::ranges::all_of(file.columns(), [&](const std::string& column) {
    return std::ranges::find(names, column) != names.end();
  });
}

}  // namespace

std::vector<fs::path> MatchingFiles(const fs::path& folder, const std::string& pattern) {
  const fs::path whole = folder / pattern;
  std::error_code error;
  std::vector<fs::path> files;
  if (whole.filename().string().find('*') == std::string::npos) {
    if (fs::is_regular_file(whole, error)) files.push_back(whole);
    return files;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(whole.parent_path(), error)) {
    if (fnmatch(whole.filename().c_str(), entry.path().filename().c_str(), FNM_PERIOD) == 0 &&
        entry.is_regular_file(error)) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

absl::StatusOr<const v1::TaskFile*> FindTaskFile(const TaskFiles& files, const fs::path& folder) {
  for (const v1::TaskFile& file : files) {
    const std::vector<fs::path> paths = MatchingFiles(folder, file.path());
    if (paths.empty()) continue;
    if (!file.labels().empty() && MatchingFiles(folder, file.labels()).empty()) continue;
    if (file.header()) {
      // A malformed first line does not name columns either.
      const absl::StatusOr<bool> fits = HeaderFits(file, paths[0]);
      if (!fits.ok() || !*fits) continue;
    }
    return &file;
  }
  return nullptr;
}

std::string WhyNoTaskFile(const TaskFiles& files, const fs::path& folder) {
  for (const v1::TaskFile& file : files) {
    const std::vector<fs::path> paths = MatchingFiles(folder, file.path());
    if (paths.empty()) continue;
    if (!file.labels().empty() && MatchingFiles(folder, file.labels()).empty()) {
      return absl::StrCat((folder / file.labels()).string(), ": not found, expected the labels of ",
                          paths[0].string());
    }
    if (!file.header()) continue;
    return absl::StrCat(paths[0].string(), ": ",
                        IsEmpty(paths[0])
                            ? kEmptyFile
                            : absl::StrCat("the first line does not name the columns ",
                                           absl::StrJoin(file.columns(), ", ")));
  }
  return "";
}

absl::StatusOr<std::vector<TaskRecord>> ReadTaskFile(const v1::TaskFile& file,
                                                     const TaskFields& task_fields,
                                                     const fs::path& folder) {
  ASSIGN_OR_RETURN(const std::vector<FieldRule> rules, CreateRules(file, task_fields));
  std::vector<TaskRecord> records;
  const std::vector<fs::path> paths = MatchingFiles(folder, file.path());
  if (!paths.empty() && std::ranges::all_of(paths, IsEmpty)) {
    return Malformed(paths[0].string(), kEmptyFile);
  }
  for (const fs::path& path : paths) {
    ASSIGN_OR_RETURN(std::vector<TaskRecord> more, ReadOne(file, path));
    std::ranges::move(more, std::back_inserter(records));
  }
  if (!file.labels().empty()) RETURN_IF_ERROR(AddLabels(folder / file.labels(), &records));
  if (!file.each().empty()) {
    std::vector<TaskRecord> elements;
    for (const TaskRecord& record : records) {
      RETURN_IF_ERROR(AddElements(record, file, &elements));
    }
    records = std::move(elements);
  }
  return ApplyRules(std::move(records), rules);
}

}  // namespace braid
