#include "pipeline/corpus/manual_page_text.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace braid {
namespace {

using Replacement = std::pair<std::string_view, std::string_view>;

// Two-letter characters \(xx and strings \*(xx.
constexpr std::array<Replacement, 28> kCharacters = {{
    {"aq", "'"},   {"bu", "*"},   {"co", "(C)"}, {"cq", "'"},  {"dq", "\""}, {"em", "--"},
    {"en", "-"},   {"ga", "`"},   {"ha", "^"},   {"hy", "-"},  {"lq", "\""}, {"oq", "'"},
    {"rq", "\""},  {"rs", "\\"},  {"ti", "~"},   {"mi", "-"},  {"mu", "x"},  {"<=", "<="},
    {">=", ">="},  {"->", "->"},  {"<-", "<-"},  {"C`", "\""}, {"C'", "\""}, {"--", "--"},
    {"L\"", "\""}, {"R\"", "\""}, {"la", "<"},   {"ra", ">"},
}};

std::string_view Character(std::string_view name) {
  const auto* found = std::ranges::find(kCharacters, name, &Replacement::first);
  return found == kCharacters.end() ? std::string_view() : found->second;
}

// A name after an escape: one character, "(xx" or "[name]".
std::string_view TakeName(std::string_view* rest) {
  std::string_view name;
  if (rest->starts_with("(")) {
    name = rest->substr(1, 2);
    rest->remove_prefix(std::min<size_t>(3, rest->size()));
  } else if (rest->starts_with("[")) {
    const size_t end = std::min(rest->find(']'), rest->size());
    name = rest->substr(1, end - 1);
    rest->remove_prefix(std::min(end + 1, rest->size()));
  } else {
    name = rest->substr(0, 1);
    rest->remove_prefix(std::min<size_t>(1, rest->size()));
  }
  return name;
}

void SkipQuoted(std::string_view* rest) {
  if (rest->empty()) return;
  const size_t end = rest->find((*rest)[0], 1);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
}

// \s-1, \s+2, \s0, \s(12
void SkipSize(std::string_view* rest) {
  if (rest->starts_with("(") || rest->starts_with("[")) {
    TakeName(rest);
    return;
  }
  if (rest->starts_with("+") || rest->starts_with("-")) rest->remove_prefix(1);
  rest->remove_prefix(std::min<size_t>(1, rest->size()));
}

// Takes the escape whose backslash is already gone; false when the rest of the line is a comment.
bool TakeEscape(std::string_view* rest, std::string* out) {
  const char kind = rest->empty() ? '\0' : (*rest)[0];
  if (kind == '(' || kind == '[') {
    *out += Character(TakeName(rest));
    return true;
  }
  if (!rest->empty()) rest->remove_prefix(1);
  switch (kind) {
    case '"':
    case '#':
      return false;
    case 'e':
    case '\\':
      *out += '\\';
      break;
    case '-':
    case '.':
    case '\'':
    case '`':
      *out += kind;
      break;
    case ' ':
    case '~':
    case '0':
      *out += ' ';
      break;
    case 'f':
    case 'F':
    case 'm':
    case 'M':
    case 'n':
    case 'k':
    case 'g':
      TakeName(rest);
      break;
    case '*':
      *out += Character(TakeName(rest));
      break;
    case 's':
      SkipSize(rest);
      break;
    case 'h':
    case 'v':
    case 'w':
    case 'l':
    case 'L':
    case 'D':
    case 'N':
    case 'o':
    case 'X':
    case 'Z':
    case 'b':
    case 'x':
      SkipQuoted(rest);
      break;
    default:
      break;  // \& \| \^ \c \/ \, \% \: \{ \} \a \t \u \d print nothing
  }
  return true;
}

std::string PlainLine(std::string_view line) {
  std::string out;
  while (!line.empty()) {
    const size_t escape = std::min(line.find('\\'), line.size());
    out += line.substr(0, escape);
    line.remove_prefix(escape);
    if (line.empty()) break;
    line.remove_prefix(1);
    if (!TakeEscape(&line, &out)) break;
  }
  return out;
}

// Arguments of a macro: words, or "quoted words".
std::vector<std::string> Arguments(std::string_view rest) {
  std::vector<std::string> arguments;
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    if (rest.empty() || rest.starts_with("\\\"")) return arguments;
    const bool quoted = rest[0] == '"';
    if (quoted) rest.remove_prefix(1);
    size_t end = quoted ? rest.find('"') : 0;
    while (!quoted && end < rest.size() && rest[end] != ' ' && rest[end] != '\t') {
      end += rest[end] == '\\' ? 2 : 1;  // an escaped space belongs to the word
    }
    end = std::min(end, rest.size());
    arguments.push_back(PlainLine(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + (quoted ? 1 : 0), rest.size()));
  }
}

std::string Join(const std::vector<std::string>& words, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) joined += separator;
    joined += words[i];
  }
  return joined;
}

bool IsAnyOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

class Page {
 public:
  std::string Text(std::string_view roff) {
    while (!roff.empty()) {
      const size_t newline = std::min(roff.find('\n'), roff.size());
      AddLine(roff.substr(0, newline));
      roff.remove_prefix(std::min(newline + 1, roff.size()));
    }
    return std::move(text_);
  }

 private:
  void AddLine(std::string_view line) {
    if (inside_definition_) {
      inside_definition_ = !line.starts_with("..");
    } else if (block_depth_ > 0) {
      CountBraces(line);
    } else if (line.starts_with(".") || line.starts_with("'")) {
      AddMacro(line.substr(1));
    } else if (line.find_first_not_of(" \t") == std::string_view::npos) {
      BreakParagraph();
    } else {
      AddText(PlainLine(line));
    }
  }

  void AddMacro(std::string_view line) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const std::string_view name = line.substr(0, line.find_first_of(" \t"));
    const std::string_view rest = line.substr(name.size());
    if (IsAnyOf(name, {"de", "de1", "am", "ig"})) {
      inside_definition_ = true;
    } else if (IsAnyOf(name, {"if", "ie", "el", "while"})) {
      CountBraces(rest);
    } else if (IsAnyOf(name, {"TH", "Dt"})) {
      AddTitle(Arguments(rest));
    } else if (IsAnyOf(name, {"SH", "SS", "Sh", "Ss"})) {
      BreakParagraph();
      AddText(Join(Arguments(rest), " "));
    } else if (IsAnyOf(name, {"PP", "P", "LP", "TP", "TQ", "HP", "Pp", "sp", "Bd", "Ed", "Bl", "El",
                              "D1", "Dl"})) {
      BreakParagraph();
    } else if (IsAnyOf(name, {"IP", "It"})) {
      BreakParagraph();
      AddItem(name, Arguments(rest));
    } else if (IsAnyOf(name, {"BR", "RB", "IR", "RI", "BI", "IB"})) {
      AddText(Join(Arguments(rest), ""));
    } else if (IsAnyOf(name, {"B",  "I",  "SM", "SB", "Nd", "Sy", "Em", "Li", "Pa", "Cm",
                              "Va", "Ar", "Fa", "In", "Dv", "Ev", "Er", "Vt", "Ft", "Fn",
                              "Fd", "Op", "Ql", "Dq", "Sq", "Pq", "Qq", "An", "Xr", "Tn",
                              "No", "Nm", "Fl", "Bq", "Aq", "UR", "MT"})) {
      AddMdoc(name, Arguments(rest));
    }
  }

  void AddTitle(const std::vector<std::string>& arguments) {
    if (arguments.size() >= 2) AddText(arguments[0] + "(" + arguments[1] + ")");
  }

  void AddItem(std::string_view name, std::vector<std::string> arguments) {
    if (name == "IP") arguments.resize(std::min<size_t>(1, arguments.size()));
    if (!arguments.empty()) AddMdoc(name, std::move(arguments));
  }

  // In mdoc a macro's arguments may be macros: "Op Fl v Ar file".
  void AddMdoc(std::string_view name, std::vector<std::string> arguments) {
    if (name == "Nm" && arguments.empty()) arguments = {name_};
    if (name == "Nm" && name_.empty() && !arguments.empty()) name_ = arguments[0];
    if (name == "Fl") arguments.insert(arguments.begin(), "Fl");
    std::string line;
    bool dash = false;
    for (const std::string& argument : arguments) {
      if (argument == "Fl") {
        dash = true;
        continue;
      }
      if (IsAnyOf(argument, {"Ar", "Op", "Cm", "Pa", "Ns", "Nm", "Xr", "Li", "Sy", "Em", "Va", "Oo",
                             "Oc", "Ev", "Dv", "Ic"})) {
        continue;
      }
      const bool joins = line.empty() || argument.find_first_not_of(".,;:)") == std::string::npos;
      absl::StrAppend(&line, joins ? "" : " ", std::exchange(dash, false) ? "-" : "", argument);
    }
    AddText(name == "Op" ? absl::StrCat("[", line, "]") : line);
  }

  void AddText(std::string_view line) {
    if (line.empty()) return;
    text_ += line;
    text_ += '\n';
  }

  void BreakParagraph() {
    if (!text_.empty() && !text_.ends_with("\n\n")) text_ += '\n';
  }

  void CountBraces(std::string_view line) {
    for (size_t i = 0; i + 1 < line.size(); ++i) {
      if (line[i] != '\\') continue;
      if (line[i + 1] == '{') ++block_depth_;
      if (line[i + 1] == '}') --block_depth_;
    }
    block_depth_ = std::max(block_depth_, 0);
  }

  std::string text_;
  std::string name_;  // of the program, for mdoc's bare .Nm
  bool inside_definition_ = false;
  int block_depth_ = 0;
};

}  // namespace

std::string ManualPageText(std::string_view roff) { return Page().Text(roff); }

}  // namespace braid
