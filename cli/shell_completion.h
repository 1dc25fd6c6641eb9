// Completion scripts for shells, generated from a program's CLI11 command tree.
#ifndef BRAID_CLI_SHELL_COMPLETION_H_
#define BRAID_CLI_SHELL_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// Returns a script that completes the visible commands and options of `program`, and file names
// where neither applies, in `shell`: "bash", "zsh" or "fish". InvalidArgument for another shell.
absl::StatusOr<std::string> CompletionScript(const CLI::App& program, const std::string& shell);

}  // namespace braid

#endif  // BRAID_CLI_SHELL_COMPLETION_H_
