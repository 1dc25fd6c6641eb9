// The values of --decontaminate.
#ifndef BRAID_CLI_DECONTAMINATION_PATHS_H_
#define BRAID_CLI_DECONTAMINATION_PATHS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace braid {

// Makes a path, and the directory of "tasks=DIR", absolute. "tasks" alone means "tasks=downstream",
// unless there is such a path.
CLI::Validator DecontaminationPathValue();

// Replaces each "tasks=DIR" by the files in DIR whose examples the built-in tasks evaluate, in the
// layout of `braid eval tasks --data`. NOT_FOUND for a directory with none of them.
absl::Status ExpandTaskPaths(google::protobuf::RepeatedPtrField<std::string>* paths);

}  // namespace braid

#endif  // BRAID_CLI_DECONTAMINATION_PATHS_H_
