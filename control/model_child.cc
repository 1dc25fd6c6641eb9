#include "control/model_child.h"

#include <google/protobuf/text_format.h>

#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "base/directory_use.h"
#include "base/random_id.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "control/supervision/subprocess.h"
#include "proto/absolute_paths.h"
#include "runs/model_path.h"

namespace braid {
namespace {

constexpr int kMaxThreads = 1024;

// Removes the file of a request once it is answered.
class RequestFile {
 public:
  static absl::StatusOr<RequestFile> Write(const std::filesystem::path& folder,
                                           const google::protobuf::Message& request) {
    RETURN_IF_ERROR(MakeDirectories(folder));
    // Not the process id, which processes of other hosts or containers with this home may have too.
    RequestFile file(folder / absl::StrCat(RandomId(16), ".textproto"));
    std::string text;
    google::protobuf::TextFormat::PrintToString(request, &text);
    RETURN_IF_ERROR(WriteFileAtomically(file.path_, SealLines(text)));
    return file;
  }
  RequestFile(RequestFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~RequestFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  explicit RequestFile(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// Maps the exit codes of cli/braid_trainer.cc, so that an invalid request remains distinguishable
// from a failure.
absl::StatusCode CodeOf(int exit_code) {
  if (exit_code == 2) return absl::StatusCode::kInvalidArgument;
  if (exit_code == 3) return absl::StatusCode::kNotFound;
  return absl::StatusCode::kFailedPrecondition;
}

}  // namespace

absl::Status CheckChildThreads(int num_threads) {
  if (num_threads >= 0 && num_threads <= kMaxThreads) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("num_threads: got ", num_threads, ", expected 0 (all cores) to ", kMaxThreads));
}

std::vector<std::string> ModelChildEnvironment(int num_threads) {
  std::vector<std::string> environment = TrainerEnvironment();
  std::erase_if(environment, [&](const std::string& variable) {
    return absl::StartsWith(variable, "OMP_WAIT_POLICY=") ||
           (num_threads > 0 && absl::StartsWith(variable, "OMP_NUM_THREADS="));
  });
  environment.push_back("OMP_WAIT_POLICY=PASSIVE");
  if (num_threads > 0) environment.push_back(absl::StrCat("OMP_NUM_THREADS=", num_threads));
  return environment;
}

absl::Status ModelChildFailure(const std::string& command, const SubprocessResult& result) {
  const std::string message(
      absl::StripPrefix(absl::StripAsciiWhitespace(result.error_output), "braid-trainer: "));
  if (result.exit_code > 128) {
    return absl::InternalError(absl::StrCat(
        "braid-trainer ", command, " was ended by signal ", result.exit_code - 128, " (",
        strsignal(result.exit_code - 128), ")", message.empty() ? "" : ": ", message));
  }
  return absl::Status(CodeOf(result.exit_code),
                      message.empty()
                          ? absl::StrCat("braid-trainer ", command, " failed with exit code ",
                                         result.exit_code, " and no message")
                          : message);
}

ModelChild::ModelChild(std::string trainer, std::filesystem::path request_dir)
    : trainer_(std::move(trainer)), request_dir_(std::move(request_dir)) {}

absl::Status ModelChild::Run(const Call& call) const {
  RETURN_IF_ERROR(CheckChildThreads(call.num_threads));
  ASSIGN_OR_RETURN(const std::string trainer,
                   RequireProgram(trainer_, "build it (ninja braid-trainer) beside braid"));
  std::vector<DirectoryUse> uses;
  for (const std::string& path : AbsolutePathsIn(call.request)) {
    // The average of a run's weights ("@ema") lies in the directory of the run.
    ASSIGN_OR_RETURN(uses.emplace_back(),
                     DirectoryUse::Share(request_dir_.parent_path(), SplitReference(path).model));
  }
  ASSIGN_OR_RETURN(const RequestFile request, RequestFile::Write(request_dir_, call.request));
  absl::Status status;
  const auto on_line = [&](std::string_view line) {
    // Libraries may print as well; events are the lines that hold a JSON object.
    if (line.empty() || line.front() != '{') return true;
    status = call.on_event(line);
    return status.ok();
  };
  ASSIGN_OR_RETURN(const SubprocessResult result,
                   RunSubprocess({.arguments = {trainer, call.command, request.path()},
                                  .environment = ModelChildEnvironment(call.num_threads)},
                                 on_line, call.cancelled));
  // Before `killed`, because the child is also killed after an error of on_event.
  if (!status.ok()) return status;
  if (result.killed) return absl::CancelledError("the client ended the call");
  return result.exit_code == 0 ? absl::OkStatus() : ModelChildFailure(call.command, result);
}

}  // namespace braid
