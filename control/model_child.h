// Runs one request in a braid-trainer child. The request is passed as a file; the events come back
// as lines of JSON.
#ifndef BRAID_CONTROL_MODEL_CHILD_H_
#define BRAID_CONTROL_MODEL_CHILD_H_

#include <google/protobuf/message.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "control/supervision/subprocess.h"

namespace braid {

// Returns INVALID_ARGUMENT unless a child may have that number of threads: 0, the trainer's
// default, to 1,024.
absl::Status CheckChildThreads(int num_threads);

// Returns TrainerEnvironment with the number of threads; 0: the trainer's default.
std::vector<std::string> ModelChildEnvironment(int num_threads);

// Returns the error of a failed `braid-trainer COMMAND`: its standard error and how it exited.
absl::Status ModelChildFailure(const std::string& command, const SubprocessResult& result);

class ModelChild {
 public:
  // `trainer` is a path, or a name that is looked up in PATH. Requests are stored in `request_dir`,
  // HOME/requests, while they run. A killed process leaves its file, which nothing reads.
  ModelChild(std::string trainer, std::filesystem::path request_dir);

  struct Call {
    // The command of braid-trainer, such as "evaluate".
    std::string command;
    const google::protobuf::Message& request;
    // 0: the trainer's default.
    int num_threads = 0;
    // Receives one line of JSON. An error ends the child and is returned by Run.
    std::function<absl::Status(std::string_view json)> on_event;
    std::function<bool()> cancelled;
  };

  // Blocks until the child has exited. FailedPrecondition with its standard error when it failed;
  // Cancelled when `cancelled` returned true.
  absl::Status Run(const Call& call) const;

 private:
  const std::string trainer_;
  const std::filesystem::path request_dir_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_MODEL_CHILD_H_
