#include "cli/help_formatter.h"

#include "absl/strings/str_cat.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

constexpr int kHelpColumns = 100;
constexpr size_t kNameColumns = 30;

// A name and its description in two columns; a longer name has a line of its own.
std::string Entry(const std::string& name, const std::string& description) {
  std::string label = "  " + name;
  std::string before;
  if (label.size() + 2 > kNameColumns) {
    before = label + "\n";
    label.clear();
  }
  label.resize(kNameColumns, ' ');
  return before + HangingText(label, description, kHelpColumns);
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
  return HangingText("", app->get_description(), kHelpColumns) + "\n";
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
  return footer;
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
