#include "evaluation/tasks/task_record.h"

#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace braid {
namespace {

using nlohmann::json;

std::string KnownFields(const json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<json> Follow(const TaskRecord& record, absl::string_view path, const json& value,
                            std::span<const std::string> steps) {
  if (steps.empty()) return value;
  absl::string_view name = steps[0];
  const bool each = absl::ConsumeSuffix(&name, "[]");
  if (!value.is_object() || !value.contains(std::string(name))) {
    return RecordError(record,
                       absl::StrCat("no field \"", name, "\" for \"", path, "\"; existing fields: ",
                                    value.is_object() ? KnownFields(value) : "none"));
  }
  const json& next = value.at(std::string(name));
  if (!each) return Follow(record, path, next, steps.subspan(1));
  if (!next.is_array()) {
    return RecordError(record, absl::StrCat("\"", name, "\" of \"", path, "\" is not a list"));
  }
  json list = json::array();
  for (const json& element : next) {
    ASSIGN_OR_RETURN(json found, Follow(record, path, element, steps.subspan(1)));
    list.push_back(std::move(found));
  }
  return list;
}

std::optional<std::string> AsText(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return std::nullopt;
}

absl::Status NoText(const TaskRecord& record, absl::string_view path, const json& value) {
  return RecordError(record, absl::StrCat("field \"", path, "\": got ", value.type_name(),
                                          ", expected a string, a number or a boolean"));
}

}  // namespace

absl::Status RecordError(const TaskRecord& record, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(record.where, ": ", message));
}

absl::StatusOr<json> FindField(const TaskRecord& record, absl::string_view path) {
  const std::vector<std::string> steps = absl::StrSplit(path, '.');
  return Follow(record, path, record.fields, steps);
}

absl::StatusOr<std::string> FieldText(const TaskRecord& record, absl::string_view path) {
  ASSIGN_OR_RETURN(const json value, FindField(record, path));
  std::optional<std::string> text = AsText(value);
  if (!text) return NoText(record, path, value);
  return *std::move(text);
}

absl::StatusOr<std::vector<std::string>> FieldTexts(const TaskRecord& record,
                                                    absl::string_view path) {
  ASSIGN_OR_RETURN(json value, FindField(record, path));
  if (!value.is_array()) value = json::array({value});
  std::vector<std::string> texts;
  for (const json& element : value) {
    std::optional<std::string> text = AsText(element);
    if (!text) return NoText(record, path, element);
    texts.push_back(*std::move(text));
  }
  return texts;
}

}  // namespace braid
