// Messages for command lines that CLI11 refuses.
#ifndef BRAID_CLI_USAGE_ERROR_H_
#define BRAID_CLI_USAGE_ERROR_H_

#include <CLI/CLI.hpp>
#include <string>

namespace braid {

// Returns one sentence that names the argument at fault, with what was expected of it and the
// nearest option or command for a mistyped one, and that refers to the --help of the chosen command
// of `program`.
std::string UsageErrorText(const CLI::App& app, const std::string& program,
                           const CLI::ParseError& error);

// As UsageErrorText, for a flag with a value that is not a truth value, such as --strict=perhaps;
// CLI11 throws another kind of exception for it.
std::string FlagErrorText(const CLI::App& app, const std::string& program, int argc, char** argv);

}  // namespace braid

#endif  // BRAID_CLI_USAGE_ERROR_H_
