#include "cli/help_formatter.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

constexpr int kFewestHelpColumns = 40, kMostHelpColumns = 100;
// On a narrower terminal, descriptions begin below the names.
constexpr int kTwoColumns = 72;

int HelpColumns() {
  return std::clamp(TerminalWidth(STDOUT_FILENO, kMostHelpColumns), kFewestHelpColumns,
                    kMostHelpColumns);
}

// A name and its description in two columns; a longer name has a line of its own.
std::string Entry(const std::string& name, const std::string& description) {
  const int columns = HelpColumns();
  const size_t name_columns = columns < kTwoColumns ? 6 : 30;
  std::string label = "  " + name;
  std::string before;
  if (label.size() + 2 > name_columns) {
    before = label + "\n";
    label.clear();
  }
  label.resize(name_columns, ' ');
  return before + HangingText(label, description, columns);
}

// Wraps the paragraphs of a footer, which are wrapped for wide terminals. Indented lines, such as
// examples, stay as they are.
std::string Wrapped(const std::string& footer, int columns) {
  std::string wrapped, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) wrapped += HangingText("", paragraph, columns);
    paragraph.clear();
  };
  const std::vector<std::string> lines = absl::StrSplit(absl::StripSuffix(footer, "\n"), '\n');
  for (const std::string& line : lines) {
    const bool is_text = !line.empty() && line[0] != ' ';
    if (!is_text || paragraph.ends_with(':')) end_paragraph();
    if (is_text) {
      absl::StrAppend(&paragraph, paragraph.empty() ? "" : " ", line);
    } else {
      absl::StrAppend(&wrapped, line, "\n");
    }
  }
  end_paragraph();
  return wrapped;
}

}  // namespace

std::string ValueName(const CLI::Option& option) {
  // CLI11 appends what validators describe: "TEXT:{a,b}", "INT:INT in [0 - 9]".
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  const std::string base = type.substr(0, colon);
  if (base != "TEXT" && base != "INT" && base != "UINT" && base != "FLOAT") return type;
  return colon != type.npos && type[colon + 1] == '{' ? type.substr(colon + 1) : base;
}

std::string OptionHelp(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) {
    absl::StrAppend(&text, " (default: ", option.get_default_str(), ")");
  }
  if (!option.get_envname().empty()) absl::StrAppend(&text, " (env: ", option.get_envname(), ")");
  if (option.get_required()) absl::StrAppend(&text, " (required)");
  return text;
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return HangingText("", app->get_description(), HelpColumns()) + "\n";
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  // CLI11 puts two empty lines between groups of options.
  return CLI::detail::find_and_replace(CLI::Formatter::make_help(app, std::move(name), mode),
                                       "\n\n\n", "\n\n");
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  std::string footer = app->get_footer();
  if (!footer.empty()) footer += "\n";
  if (app->get_parent() != nullptr) {
    footer += "\nGlobal options, such as --json, --home and --server: see 'braid --help'.\n";
  }
  const int columns = HelpColumns();
  return columns < kMostHelpColumns ? Wrapped(footer, columns) : footer;
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return Entry(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return Entry(make_option_name(option, is_positional) + make_option_opts(option),
               make_option_desc(option));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_type_size() == 0 || option->get_positional()) return "";
  const bool several = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  return absl::StrCat(" ", ValueName(*option), several ? "..." : "");
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return OptionHelp(*option);
}

}  // namespace braid
