#include "evaluation/tasks/text_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr std::array<absl::string_view, 3> kPlainFilters = {"strip", "lower", "capitalize"};
constexpr std::array<absl::string_view, 3> kFiltersWithArgument = {"suffix", "before", "after"};

bool IsIn(const std::array<absl::string_view, 3>& names, absl::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

absl::Status Malformed(absl::string_view what, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", message));
}

}  // namespace

absl::StatusOr<TextTemplate::Part> TextTemplate::ParseField(absl::string_view inside,
                                                            absl::string_view what) {
  const std::vector<std::string> pieces = absl::StrSplit(inside, '|');
  Part part;
  part.field = pieces[0];
  if (part.field.empty()) return Malformed(what, "{} names no field");
  for (size_t i = 1; i < pieces.size(); ++i) {
    const std::pair<std::string, std::string> filter =
        absl::StrSplit(pieces[i], absl::MaxSplits(':', 1));
    const bool known = IsIn(kFiltersWithArgument, filter.first) ? !filter.second.empty()
                                                                : IsIn(kPlainFilters, pieces[i]);
    if (!known) {
      return Malformed(
          what, absl::StrCat("filter \"", pieces[i], "\" of {", inside, "} is not one of ",
                             absl::StrJoin(kPlainFilters, ", "), ", suffix:X, before:X, after:X"));
    }
    part.filters.push_back({filter.first, filter.second});
  }
  return part;
}

absl::StatusOr<TextTemplate> TextTemplate::Parse(absl::string_view text, absl::string_view what) {
  TextTemplate result;
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool doubled = (c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c;
    if (doubled || (c != '{' && c != '}')) {
      plain += c;
      if (doubled) ++i;
      continue;
    }
    const size_t end = text.find('}', i);
    if (c == '}' || end == absl::string_view::npos) {
      return Malformed(what, absl::StrCat("unbalanced brace at character ", i + 1, " of \"", text,
                                          "\"; write {{ or }} for a brace"));
    }
    ASSIGN_OR_RETURN(Part part, ParseField(text.substr(i + 1, end - i - 1), what));
    part.text = std::exchange(plain, "");
    result.parts_.push_back(std::move(part));
    i = end;
  }
  result.parts_.push_back({plain, "", {}});
  return result;
}

absl::Status TextTemplate::Apply(const Filter& filter, const TaskRecord& record,
                                 std::string* text) {
  if (filter.name == "strip") {
    *text = std::string(absl::StripAsciiWhitespace(*text));
  } else if (filter.name == "lower" || filter.name == "capitalize") {
    absl::AsciiStrToLower(text);
    if (filter.name == "capitalize" && !text->empty()) (*text)[0] = absl::ascii_toupper((*text)[0]);
  } else if (filter.name == "suffix") {
    if (!absl::EndsWith(*text, filter.argument)) *text += filter.argument;
  } else {
    const size_t found = text->find(filter.argument);
    if (found == std::string::npos) {
      return RecordError(record, absl::StrCat("no \"", filter.argument, "\" in \"", *text, "\""));
    }
    *text = filter.name == "before" ? text->substr(0, found)
                                    : text->substr(found + filter.argument.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TextTemplate::Render(const TaskRecord& record,
                                                 const std::optional<std::string>& choice) const {
  std::string result;
  for (const Part& part : parts_) {
    result += part.text;
    if (part.field.empty()) continue;
    std::string value;
    if (part.field == "choice" && choice) {
      value = *choice;
    } else {
      ASSIGN_OR_RETURN(value, FieldText(record, part.field));
    }
    for (const Filter& filter : part.filters) RETURN_IF_ERROR(Apply(filter, record, &value));
    result += value;
  }
  return result;
}

bool TextTemplate::Uses(absl::string_view field) const {
  return std::ranges::any_of(parts_, [&](const Part& part) { return part.field == field; });
}

}  // namespace braid
