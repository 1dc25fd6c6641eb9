// Prompts from a file.
#ifndef BRAID_CLI_PROMPT_LIST_H_
#define BRAID_CLI_PROMPT_LIST_H_

#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

// One prompt a line; when the first line is a JSON object, every line is one with the prompt as
// its "prompt", so that prompts may have line breaks. Empty lines are left out. InvalidArgument
// with `name` and the line number for one that is not UTF-8 or no such object or longer than 4 MiB
// (a service takes prompts of 1 MiB), or when there is none.
absl::StatusOr<std::vector<std::string>> ReadPrompts(std::istream& in, const std::string& name);

// As above; "-" is standard input. NotFound when the file cannot be read.
absl::StatusOr<std::vector<std::string>> ReadPromptFile(const std::string& path);

}  // namespace braid

#endif  // BRAID_CLI_PROMPT_LIST_H_
