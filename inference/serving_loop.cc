#include "inference/serving_loop.h"

#include <google/protobuf/util/json_util.h>
#include <poll.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/pipe_read.h"
#include "base/status_macros.h"
#include "inference/generation_turns.h"
#include "inference/loaded_model.h"

namespace braid {
namespace {

absl::StatusOr<v1::ServingCommand> ParseCommand(const std::string& line) {
  v1::ServingCommand command;
  if (google::protobuf::util::JsonStringToMessage(line, &command).ok()) return command;
  return absl::InvalidArgumentError(
      absl::StrCat("standard input: expected a ServingCommand in JSON, got ", line.substr(0, 200)));
}

// Reads commands from a descriptor.
class CommandInbox {
 public:
  explicit CommandInbox(int descriptor) : descriptor_(descriptor) {}

  // Returns the commands that have arrived; blocks for at least one when `wait`. Sets `ended` at
  // the end of the input.
  absl::StatusOr<std::vector<v1::ServingCommand>> Take(bool wait, bool* ended) {
    pollfd ready = {.fd = descriptor_, .events = POLLIN, .revents = 0};
    while (!*ended && rest_.find('\n') == std::string::npos &&
           poll(&ready, 1, wait ? -1 : 0) != 0) {
      *ended = !ReadAvailable(descriptor_, &rest_);
    }
    std::vector<v1::ServingCommand> commands;
    size_t start = 0;
    for (size_t end; (end = rest_.find('\n', start)) != std::string::npos; start = end + 1) {
      ASSIGN_OR_RETURN(v1::ServingCommand command, ParseCommand(rest_.substr(start, end - start)));
      commands.push_back(std::move(command));
    }
    rest_.erase(0, start);
    return commands;
  }

 private:
  const int descriptor_;
  std::string rest_;
};

v1::ServingReport LoadedReport(const std::filesystem::path& path, LoadedModel& loaded) {
  v1::ServingReport report;
  report.mutable_loaded()->set_model(path.string());
  report.mutable_loaded()->set_checkpoint(loaded.source.checkpoint());
  *report.mutable_loaded()->mutable_source() = loaded.source;
  report.mutable_loaded()->set_num_parameters(static_cast<int64_t>(loaded.model->values().size()));
  return report;
}

}  // namespace

absl::Status ServeModel(const std::filesystem::path& path, const ServingLoopOptions& options,
                        int commands, const std::function<void(const v1::ServingReport&)>& emit) {
  SetModelThreads(options.num_threads);
  ASSIGN_OR_RETURN(LoadedModel loaded, LoadedModel::Load(path, /*strict=*/false));
  emit(LoadedReport(path, loaded));
  GenerationTurns turns(loaded, emit, options.together);
  CommandInbox inbox(commands);
  for (bool ended = false; !ended;) {
    ASSIGN_OR_RETURN(const auto arrived, inbox.Take(/*wait=*/turns.idle(), &ended));
    for (const v1::ServingCommand& command : arrived) turns.Take(command);
    if (!turns.idle() && !ended) turns.Turn();
  }
  return absl::OkStatus();
}

}  // namespace braid
