#include "evaluation/tasks/field_rule.h"

#include <re2/re2.h>

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "evaluation/tasks/equation_value.h"

namespace braid {
namespace {

// Marks the matches while a text is split: a control character that does not occur in texts.
constexpr char kCut[] = "\x1e";

absl::StatusOr<std::shared_ptr<const RE2>> Compile(const std::string& pattern, int min_groups,
                                                   absl::string_view what) {
  if (pattern.empty()) return std::shared_ptr<const RE2>();
  auto compiled = std::make_shared<const RE2>(pattern, RE2::Quiet);
  if (!compiled->ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": pattern \"", pattern, "\": ", compiled->error()));
  }
  if (compiled->NumberOfCapturingGroups() < min_groups) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": pattern \"", pattern, "\" has no group (...)"));
  }
  return compiled;
}

std::vector<std::string> Split(std::string text, const RE2& pattern) {
  RE2::GlobalReplace(&text, pattern, kCut);
  std::vector<std::string> pieces;
  for (absl::string_view piece : absl::StrSplit(text, kCut)) {
    piece = absl::StripAsciiWhitespace(piece);
    if (!piece.empty()) pieces.emplace_back(piece);
  }
  return pieces;
}

}  // namespace

absl::StatusOr<FieldRule> FieldRule::Create(const v1::TaskField& field, absl::string_view what) {
  const std::string place = absl::StrCat(what, ": field \"", field.name(), "\"");
  if (field.name().empty()) return absl::InvalidArgumentError(place + " has no name");
  if (field.from().empty() == field.text().empty()) {
    return absl::InvalidArgumentError(place + ": give either from or text");
  }
  FieldRule rule;
  rule.field_ = field;
  ASSIGN_OR_RETURN(rule.text_, TextTemplate::Parse(field.text(), place));
  ASSIGN_OR_RETURN(rule.match_, Compile(field.match(), 1, place));
  ASSIGN_OR_RETURN(rule.split_, Compile(field.split(), 0, place));
  for (const v1::TextReplacement& replacement : field.replace()) {
    ASSIGN_OR_RETURN(Pattern pattern, Compile(replacement.pattern(), 0, place));
    std::string error;
    if (!pattern || !pattern->CheckRewriteString(replacement.with(), &error)) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": replace: ", error));
    }
    rule.replace_.emplace_back(std::move(pattern), replacement.with());
  }
  return rule;
}

absl::StatusOr<std::vector<std::string>> FieldRule::Source(const TaskRecord& record,
                                                           bool* is_list) const {
  *is_list = field_.from_size() > 1;
  std::vector<std::string> texts;
  if (field_.from().empty()) {
    ASSIGN_OR_RETURN(std::string text, text_.Render(record));
    texts.push_back(std::move(text));
  }
  for (const std::string& path : field_.from()) {
    ASSIGN_OR_RETURN(const nlohmann::json value, FindField(record, path));
    *is_list = *is_list || value.is_array();
    ASSIGN_OR_RETURN(const std::vector<std::string> more, FieldTexts(record, path));
    texts.insert(texts.end(), more.begin(), more.end());
  }
  return texts;
}

absl::Status FieldRule::Edit(const TaskRecord& record, std::string* text) const {
  if (match_) {
    std::string group;
    if (!RE2::PartialMatch(*text, *match_, &group)) {
      return RecordError(record, absl::StrCat("field \"", field_.name(), "\": \"", *text,
                                              "\" does not match \"", field_.match(), "\""));
    }
    *text = group;
  }
  for (const auto& [pattern, with] : replace_) RE2::GlobalReplace(text, *pattern, with);
  if (!field_.prefix_notation()) return absl::OkStatus();
  std::optional<std::string> prefix = PrefixNotation(*text);
  if (!prefix.has_value()) {
    return RecordError(record, absl::StrCat("field \"", field_.name(), "\": \"", *text,
                                            "\" is not an arithmetic expression"));
  }
  *text = *std::move(prefix);
  return absl::OkStatus();
}

absl::StatusOr<bool> FieldRule::Rename(const TaskRecord& record, std::string* text) const {
  if (field_.values().empty()) return true;
  std::vector<std::string> known;
  for (const v1::FieldValue& value : field_.values()) {
    if (value.is() == *text) {
      *text = value.becomes();
      return !value.skip();
    }
    known.push_back(value.is());
  }
  return RecordError(record, absl::StrCat("field \"", field_.name(), "\": got \"", *text,
                                          "\", expected one of ", absl::StrJoin(known, ", ")));
}

absl::StatusOr<bool> FieldRule::Apply(TaskRecord* record) const {
  bool is_list = false;
  ASSIGN_OR_RETURN(std::vector<std::string> texts, Source(*record, &is_list));
  for (std::string& text : texts) RETURN_IF_ERROR(Edit(*record, &text));
  if (split_) {
    is_list = true;
    std::vector<std::string> pieces;
    for (const std::string& text : texts) {
      for (std::string& piece : Split(text, *split_)) pieces.push_back(std::move(piece));
    }
    texts = std::move(pieces);
  }
  for (std::string& text : texts) {
    ASSIGN_OR_RETURN(const bool keep, Rename(*record, &text));
    if (!keep) return false;
  }
  record->fields[field_.name()] = is_list ? nlohmann::json(texts) : nlohmann::json(texts.at(0));
  return true;
}

}  // namespace braid
