// One request answered by a braid-trainer child: the request goes to it as a
// file, its events come back as lines of JSON.
#ifndef BRAID_TRAINER_CONTROL_MODEL_CHILD_H_
#define BRAID_TRAINER_CONTROL_MODEL_CHILD_H_

#include <google/protobuf/message.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace braid {

class ModelChild {
 public:
  // `trainer`: a path, or a name that is looked up in PATH. Requests are kept in
  // `request_dir` while they are answered.
  ModelChild(std::string trainer, std::filesystem::path request_dir);

  struct Call {
    // "evaluate" or "generate".
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

#endif  // BRAID_TRAINER_CONTROL_MODEL_CHILD_H_
