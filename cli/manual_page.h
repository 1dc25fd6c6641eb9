// Manual pages, generated from a program's CLI11 command tree.
#ifndef BRAID_CLI_MANUAL_PAGE_H_
#define BRAID_CLI_MANUAL_PAGE_H_

#include <CLI/CLI.hpp>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// Returns the manual page (section 1, roff with man macros) of the command that `path` names, such
// as {"corpus", "describe"}; of the program itself when `path` is empty. InvalidArgument for an
// unknown command.
absl::StatusOr<std::string> ManualPage(const CLI::App& program, std::span<const std::string> path);

// Writes that page and those of all visible commands below it to `directory`, which must exist, as
// files such as braid-corpus-describe.1.
absl::Status WriteManualPages(const CLI::App& program, const std::filesystem::path& directory,
                              const std::vector<std::string>& path);

}  // namespace braid

#endif  // BRAID_CLI_MANUAL_PAGE_H_
