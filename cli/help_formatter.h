// The layout of --help: one option or command per entry, wrapped at the width of the terminal or at
// 100 columns, with default values and environment variables after the description.
#ifndef BRAID_CLI_HELP_FORMATTER_H_
#define BRAID_CLI_HELP_FORMATTER_H_

#include <CLI/CLI.hpp>
#include <string>

namespace braid {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  // " TYPE", followed by "..." for options with several values.
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

// Returns the name of an option's value: "INT", "TEXT", or the values it may take, "{a,b}".
std::string ValueName(const CLI::Option& option);

// Returns the description of an option with its default value, environment variable and whether it
// is required, in parentheses.
std::string OptionHelp(const CLI::Option& option);

}  // namespace braid

#endif  // BRAID_CLI_HELP_FORMATTER_H_
