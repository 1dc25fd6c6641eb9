// One request answered by a braid-trainer child: the request goes to it as a
// file, its events come back as lines of JSON.
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

// TrainerEnvironment for a child with a model; num_threads 0: the trainer's default.
std::vector<std::string> ModelChildEnvironment(int num_threads);

// Why `braid-trainer COMMAND` failed: what it wrote on standard error, and how it ended.
absl::Status ModelChildFailure(const std::string& command, const SubprocessResult& result);

class ModelChild {
 public:
  // `trainer`: a path, or a name that is looked up in PATH. Requests are kept in
  // `request_dir` while they are answered.
  ModelChild(std::string trainer, std::filesystem::path request_dir);

  struct Call {
    // "evaluate", say.
    std::string command;
    const google::protobuf::Message& request;
    // 0: the trainer's default.
    int num_threads = 0;
    // One line of JSON; an error ends the child and is the result of Run.
    std::function<absl::Status(std::string_view json)> on_event;
    std::function<bool()> cancelled;
  };

  // Blocks until the child has ended. FailedPrecondition with what it wrote on
  // standard error when it failed; Cancelled when `cancelled` said so.
  absl::Status Run(const Call& call) const;

 private:
  const std::string trainer_;
  const std::filesystem::path request_dir_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_MODEL_CHILD_H_
