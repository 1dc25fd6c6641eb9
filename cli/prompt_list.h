// Reads prompts from a file.
#ifndef BRAID_CLI_PROMPT_LIST_H_
#define BRAID_CLI_PROMPT_LIST_H_

#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

// Reads one prompt per line. When the first line is a JSON object, every line must be an object
// with the prompt in its "prompt" field, so that prompts may contain line breaks. Empty lines are
// skipped. InvalidArgument with `name` and the line number for a line that is not UTF-8, is not
// such an object or is longer than 4 MiB (a service accepts prompts of 1 MiB), and when there is no
// prompt.
absl::StatusOr<std::vector<std::string>> ReadPrompts(std::istream& in, const std::string& name);

// Reads prompts from the file at `path`, or from standard input for "-". Errors as ReadPrompts;
// NotFound when the file cannot be read.
absl::StatusOr<std::vector<std::string>> ReadPromptFile(const std::string& path);

}  // namespace braid

#endif  // BRAID_CLI_PROMPT_LIST_H_
