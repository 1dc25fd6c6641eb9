#include "pipeline/supervised/record_format.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_word.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace braid {
namespace {

using nlohmann::json;
using Converted = std::variant<SupervisedRecord, RejectedRecord>;

constexpr size_t kShownBytes = 60;
constexpr std::string_view kAsciiSpace = " \t\r\n\f\v";

constexpr std::array<std::pair<RecordPart, std::string_view>, 8> kPartNames = {{
    {RecordPart::kPrompt, "prompt"},
    {RecordPart::kInput, "input"},
    {RecordPart::kAnswer, "answer"},
    {RecordPart::kSystem, "system"},
    {RecordPart::kHistory, "history"},
    {RecordPart::kTurns, "turns"},
    {RecordPart::kRole, "role"},
    {RecordPart::kContent, "content"},
}};

constexpr std::array<std::pair<std::string_view, ChatRole>, 7> kRoleNames = {{
    {"system", ChatRole::kSystem},
    {"user", ChatRole::kUser},
    {"human", ChatRole::kUser},
    {"assistant", ChatRole::kAssistant},
    {"gpt", ChatRole::kAssistant},
    {"chatgpt", ChatRole::kAssistant},
    {"model", ChatRole::kAssistant},
}};

bool IsBlank(std::string_view text) { return text.find_first_not_of(kAsciiSpace) == text.npos; }

std::string Shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kShownBytes) {
    text.resize(Utf8PrefixLength(text, kShownBytes));
    text += "...";
  }
  return text;
}

std::vector<std::string> NamesOf(const json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

absl::Status FieldError(const std::string& place, const std::string& field, const std::string& got,
                        const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": ", field, ": got ", got, ", expected ", expected));
}

std::string FieldsOf(const RecordFormat& format) {
  std::vector<std::string> names;
  for (const RecordPart part : format.required) names.push_back(format.fields.at(part));
  return absl::StrCat(format.name, " (", absl::StrJoin(names, ", "), ")");
}

// Sets the fields of parts that the command line names.
absl::Status Rename(const std::map<std::string, std::string>& fields, RecordFormat* format) {
  for (const auto& [part_name, field] : fields) {
    const auto part =
        std::ranges::find(kPartNames, part_name, [](const auto& p) { return p.second; });
    if (part == kPartNames.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--field: got ", part_name, "=", field,
                                                     ", expected PART=NAME with a part of prompt, "
                                                     "input, answer, system, history, turns, role, "
                                                     "content"));
    }
    if (format->fields.contains(part->first)) format->fields[part->first] = field;
  }
  return absl::OkStatus();
}

bool HasRequired(const RecordFormat& format, const json& record) {
  return std::ranges::all_of(format.required, [&](RecordPart part) {
    const auto found = record.find(format.fields.at(part));
    return found != record.end() && (part != RecordPart::kTurns || found->is_array());
  });
}

// Converts one record.
class RecordConverter {
 public:
  RecordConverter(const RecordFormat& format, const json& record, const std::string& place)
      : format_(format), object_(record) {
    record_.place = place;
    record_.literal = format.literal;
  }

  absl::StatusOr<Converted> Convert() {
    RETURN_IF_ERROR(CheckNames());
    if (format_.fields.contains(RecordPart::kTurns)) {
      RETURN_IF_ERROR(AddMessages());
    } else {
      RETURN_IF_ERROR(AddParts());
    }
    CheckTurns();
    if (!rejected_.reason.empty()) {
      rejected_.place = record_.place;
      return rejected_;
    }
    return std::move(record_);
  }

 private:
  bool Has(RecordPart part) const {
    const auto name = format_.fields.find(part);
    return name != format_.fields.end() && object_.contains(name->second) &&
           !object_[name->second].is_null();
  }

  // A required field that is missing, and an optional one that seems to be misspelled, are errors.
  absl::Status CheckNames() const {
    const std::vector<std::string> names = NamesOf(object_);
    for (const RecordPart part : format_.required) {
      const std::string& field = format_.fields.at(part);
      if (object_.contains(field)) continue;
      const std::string nearest = NearestWord(field, names);
      return FieldError(record_.place, field,
                        absl::StrCat("no such field among ", absl::StrJoin(names, ", ")),
                        absl::StrCat("a record of the format ", FieldsOf(format_),
                                     nearest.empty() ? "" : "; did you mean --field ",
                                     nearest.empty() ? "" : std::string(RecordPartName(part)),
                                     nearest.empty() ? "" : "=", nearest));
    }
    std::vector<std::string> known;
    for (const auto& [part, field] : format_.fields) known.push_back(field);
    for (const std::string& name : names) {
      if (std::ranges::find(known, name) != known.end()) continue;
      for (const auto& [part, field] : format_.fields) {
        if (object_.contains(field) || part == RecordPart::kRole || part == RecordPart::kContent) {
          continue;
        }
        if (!IsMisspelled(name, field)) continue;
        return FieldError(record_.place, name, "an unknown field",
                          absl::StrCat(field, "; rename it, or read it with --field ",
                                       std::string(RecordPartName(part)), "=", name));
      }
    }
    return absl::OkStatus();
  }

  // Returns whether a name differs from a known one in one or two letters, or in their case.
  static bool IsMisspelled(const std::string& name, const std::string& known) {
    const auto length = static_cast<int64_t>(known.size());
    return std::abs(length - static_cast<int64_t>(name.size())) <= 2 && length >= 4 &&
           !NearestWord(name, {known}).empty() && name.front() == known.front();
  }

  absl::StatusOr<std::string> Text(const json& object, const std::string& field,
                                   const std::string& shown) const {
    const auto found = object.find(field);
    if (found == object.end()) {
      return FieldError(record_.place, shown,
                        absl::StrCat("no such field among ", absl::StrJoin(NamesOf(object), ", ")),
                        "a string");
    }
    if (found->is_null()) return std::string();
    if (found->is_string()) return found->get<std::string>();
    return FieldError(record_.place, shown, Shown(*found), "a string");
  }

  absl::StatusOr<std::string> Text(RecordPart part) const {
    if (!Has(part)) return std::string();
    const std::string& field = format_.fields.at(part);
    return Text(object_, field, field);
  }

  absl::Status AddParts() {
    ASSIGN_OR_RETURN(std::string system, Text(RecordPart::kSystem));
    if (!IsBlank(system)) record_.turns.push_back({ChatRole::kSystem, std::move(system)});
    RETURN_IF_ERROR(AddHistory());
    ASSIGN_OR_RETURN(std::string prompt, Text(RecordPart::kPrompt));
    ASSIGN_OR_RETURN(std::string input, Text(RecordPart::kInput));
    ASSIGN_OR_RETURN(std::string answer, Text(RecordPart::kAnswer));
    if (!format_.literal && IsBlank(prompt)) {
      // An instruction may be in the input alone.
      if (IsBlank(input)) Reject("empty prompt", "");
      std::swap(prompt, input);
    }
    if (IsBlank(input)) input.clear();
    if (format_.fields.contains(RecordPart::kPrompt) && !prompt.empty()) {
      record_.turns.push_back({ChatRole::kUser, std::move(prompt), std::move(input)});
    }
    record_.turns.push_back({ChatRole::kAssistant, std::move(answer)});
    return absl::OkStatus();
  }

  // Adds earlier turns: a list of pairs of prompt and answer.
  absl::Status AddHistory() {
    if (!Has(RecordPart::kHistory)) return absl::OkStatus();
    const std::string& field = format_.fields.at(RecordPart::kHistory);
    const json& history = object_[field];
    const auto is_pair = [](const json& pair) {
      return pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string();
    };
    if (!history.is_array() || !std::ranges::all_of(history, is_pair)) {
      return FieldError(record_.place, field, Shown(history),
                        "a list of pairs [prompt, answer] of strings");
    }
    for (const json& pair : history) {
      record_.turns.push_back({ChatRole::kUser, pair[0].get<std::string>()});
      record_.turns.push_back({ChatRole::kAssistant, pair[1].get<std::string>()});
    }
    return absl::OkStatus();
  }

  absl::Status AddMessages() {
    ASSIGN_OR_RETURN(std::string system, Text(RecordPart::kSystem));
    if (!IsBlank(system)) record_.turns.push_back({ChatRole::kSystem, std::move(system)});
    const std::string& field = format_.fields.at(RecordPart::kTurns);
    if (!object_[field].is_array()) {
      return FieldError(record_.place, field, Shown(object_[field]), "a list of turns");
    }
    for (size_t i = 0; i < object_[field].size(); ++i) {
      RETURN_IF_ERROR(AddMessage(object_[field][i], absl::StrCat(field, "[", i, "]")));
    }
    return absl::OkStatus();
  }

  absl::Status AddMessage(const json& message, const std::string& where) {
    if (!message.is_object()) {
      return FieldError(record_.place, where, Shown(message), "an object with role and text");
    }
    const std::string& role_field = format_.fields.at(RecordPart::kRole);
    const std::string& content_field = format_.fields.at(RecordPart::kContent);
    ASSIGN_OR_RETURN(const std::string role,
                     Text(message, role_field, absl::StrCat(where, ".", role_field)));
    ASSIGN_OR_RETURN(std::string content,
                     Text(message, content_field, absl::StrCat(where, ".", content_field)));
    const auto known = std::ranges::find(kRoleNames, role, [](const auto& r) { return r.first; });
    if (known == kRoleNames.end()) {
      return FieldError(record_.place, absl::StrCat(where, ".", role_field), Shown(role),
                        "system, user, human, assistant, gpt, chatgpt or model");
    }
    record_.turns.push_back({known->second, std::move(content)});
    return absl::OkStatus();
  }

  void Reject(std::string reason, std::string detail) {
    if (rejected_.reason.empty()) rejected_ = {"", std::move(reason), std::move(detail)};
  }

  // Rejects turns that give no example, and removes those after the last answer.
  void CheckTurns() {
    std::vector<ChatTurn>& turns = record_.turns;
    while (!turns.empty() && turns.back().role != ChatRole::kAssistant) turns.pop_back();
    if (turns.empty()) {
      return Reject("no answer", "got no turn of the assistant, expected at least one");
    }
    ChatRole before = ChatRole::kSystem;
    for (size_t i = 0; i < turns.size(); ++i) {
      const ChatRole role = turns[i].role;
      const bool first_answer = role == ChatRole::kAssistant && before == ChatRole::kSystem;
      const bool only_answer = turns.size() == 1 && format_.literal;
      if ((role == before && i > 0) || (role == ChatRole::kSystem && i > 0) ||
          (first_answer && !only_answer)) {
        return Reject("roles out of order",
                      absl::StrCat("at turn ", i + 1,
                                   ", expected an optional system turn, then user and assistant in "
                                   "turn"));
      }
      if (role == ChatRole::kAssistant && IsBlank(turns[i].text)) {
        return Reject(turns[i].text.empty() ? "empty answer" : "answer of only white space",
                      turns.size() > 2 ? absl::StrCat("at turn ", i + 1) : "");
      }
      before = role;
    }
  }

  const RecordFormat& format_;
  const json& object_;
  SupervisedRecord record_;
  RejectedRecord rejected_;
};

}  // namespace

std::string_view RecordPartName(RecordPart part) {
  return std::ranges::find(kPartNames, part, [](const auto& p) { return p.first; })->second;
}

std::vector<RecordFormat> RecordFormats() {
  using enum RecordPart;
  return {
      {"messages",
       {{kTurns, "messages"}, {kRole, "role"}, {kContent, "content"}, {kSystem, "system"}},
       {kTurns}},
      {"sharegpt",
       {{kTurns, "conversations"}, {kRole, "from"}, {kContent, "value"}, {kSystem, "system"}},
       {kTurns}},
      {"alpaca",
       {{kPrompt, "instruction"},
        {kInput, "input"},
        {kAnswer, "output"},
        {kSystem, "system"},
        {kHistory, "history"}},
       {kPrompt, kAnswer}},
      {"prompt", {{kPrompt, "prompt"}, {kAnswer, "completion"}}, {kPrompt, kAnswer}, true},
      {"text", {{kAnswer, "text"}}, {kAnswer}, true},
  };
}

std::vector<std::string> RecordFormatNames() {
  std::vector<std::string> names;
  for (const RecordFormat& format : RecordFormats()) names.push_back(format.name);
  return names;
}

std::vector<std::string> RecordPartNames(const std::string& format_name) {
  std::vector<std::string> names;
  for (const RecordFormat& format : RecordFormats()) {
    if (format.name != format_name) continue;
    for (const auto& [part, field] : format.fields) names.emplace_back(RecordPartName(part));
  }
  return names;
}

absl::StatusOr<RecordFormat> FindRecordFormat(const std::string& name,
                                              const std::map<std::string, std::string>& fields,
                                              const json& record, const std::string& place) {
  std::vector<std::string> expected;
  for (RecordFormat& format : RecordFormats()) {
    RETURN_IF_ERROR(Rename(fields, &format));
    if (name.empty() ? HasRequired(format, record) : format.name == name) return format;
    expected.push_back(FieldsOf(format));
  }
  if (!name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--format: got ", name, ", expected one of ",
                                                   absl::StrJoin(RecordFormatNames(), ", ")));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      place, ": got the fields ", absl::StrJoin(NamesOf(record), ", "),
      ", expected those of one format: ", absl::StrJoin(expected, ", "),
      "; name the fields, for example with --format prompt --field prompt=NAME --field "
      "answer=NAME"));
}

absl::StatusOr<Converted> ConvertRecord(const RecordFormat& format, const json& record,
                                        const std::string& place) {
  return RecordConverter(format, record, place).Convert();
}

}  // namespace braid
