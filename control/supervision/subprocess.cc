#include "control/supervision/subprocess.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/pipe_read.h"
#include "base/status_macros.h"
#include "control/supervision/child_program.h"

namespace braid {
namespace {

constexpr int kPollMs = 50;

// Splits a byte stream into lines; the unfinished last line is kept in rest_.
class LineSplitter {
 public:
  explicit LineSplitter(const std::function<bool(std::string_view)>& on_line) : on_line_(on_line) {}

  // Returns false as soon as the receiver does.
  bool Add(std::string_view bytes) {
    const size_t searched = rest_.size();
    rest_.append(bytes);
    size_t start = 0;
    for (size_t end = rest_.find('\n', searched); end != std::string::npos;
         end = rest_.find('\n', start)) {
      if (!on_line_(std::string_view(rest_).substr(start, end - start))) return false;
      start = end + 1;
    }
    rest_.erase(0, start);
    return true;
  }
  bool Finish() { return rest_.empty() || on_line_(rest_); }

 private:
  const std::function<bool(std::string_view)>& on_line_;
  std::string rest_;
};

// Reads both streams until the child has closed them or is cancelled; at the same time, because a
// child blocks while one of its pipes is full. Returns whether the child has to be killed.
bool ReadStreams(int out, int err, LineSplitter* lines, std::string* error_output,
                 const std::function<bool()>& cancelled) {
  std::array<pollfd, 2> streams = {pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    if (cancelled()) return true;
    if (poll(streams.data(), streams.size(), kPollMs) <= 0) continue;
    for (pollfd& stream : streams) {
      if (stream.fd < 0 || stream.revents == 0) continue;
      bool more;
      if (stream.fd == err) {
        more = ReadAvailable(err, error_output);
        CutToErrorTail(error_output);
      } else {
        std::string bytes;
        more = ReadAvailable(out, &bytes);
        if (!lines->Add(bytes)) return true;
      }
      if (!more) stream.fd = -1;
    }
  }
  return !lines->Finish();
}

// Returns true for the names of secrets. Some, such as SLURM_JWT and BRAID_TOKEN, have the prefixes
// of harmless settings.
bool NamesASecret(const std::string& variable) {
  const std::string name = variable.substr(0, variable.find('='));
  constexpr std::array<const char*, 6> kWords = {"TOKEN",      "SECRET", "PASSWORD",
                                                 "CREDENTIAL", "JWT",    "_KEY"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](const char* word) { return absl::StrContains(name, word); });
}

}  // namespace

void CutToErrorTail(std::string* error_output) {
  constexpr size_t kErrorTailBytes = 4096;
  if (error_output->size() <= kErrorTailBytes) return;
  error_output->erase(0, error_output->size() - kErrorTailBytes);
}

absl::StatusOr<SubprocessResult> RunSubprocess(const SubprocessSpec& spec,
                                               const std::function<bool(std::string_view)>& on_line,
                                               const std::function<bool()>& cancelled) {
  ASSIGN_OR_RETURN(const std::string program, RequireProgram(spec.arguments.at(0), ""));
  ASSIGN_OR_RETURN(Pipe out, Pipe::Open());
  ASSIGN_OR_RETURN(Pipe err, Pipe::Open());
  ASSIGN_OR_RETURN(ChildProgram child, ChildProgram::Fork({.program = program,
                                                           .arguments = spec.arguments,
                                                           .environment = spec.environment,
                                                           .standard_output = out.write_end(),
                                                           .standard_error = err.write_end(),
                                                           .die_with_parent = true}));
  RETURN_IF_ERROR(child.Execute());
  // While this process holds the write ends, reading would never reach the end of the streams.
  out.CloseWriteEnd();
  err.CloseWriteEnd();

  SubprocessResult result;
  LineSplitter lines(on_line);
  result.killed =
      ReadStreams(out.read_end(), err.read_end(), &lines, &result.error_output, cancelled);
  if (result.killed) kill(child.pid(), SIGKILL);
  // A child may close its streams and continue to run, so cancelling still has to work.
  result.exit_code = WaitForExit(child.pid(), cancelled, &result.killed);
  return result;
}

std::optional<std::string> FindProgram(const std::string& program) {
  if (absl::StrContains(program, "/")) {
    if (access(program.c_str(), X_OK) != 0) return std::nullopt;
    return std::filesystem::absolute(program).string();
  }
  const char* path = std::getenv("PATH");
  for (const auto& folder : absl::StrSplit(path ? path : "/usr/bin:/bin", ':')) {
    const std::string candidate = absl::StrCat(folder, "/", program);
    if (folder.empty() || access(candidate.c_str(), X_OK) != 0) continue;
    return std::filesystem::absolute(candidate).string();
  }
  return std::nullopt;
}

absl::StatusOr<std::string> RequireProgram(const std::string& program, std::string_view hint) {
  if (std::optional<std::string> found = FindProgram(program)) return *std::move(found);
  const bool is_path = absl::StrContains(program, "/");
  return absl::FailedPreconditionError(
      absl::StrCat("cannot execute ", program, is_path ? ": no such program" : ": not in PATH",
                   hint.empty() ? "" : "; ", absl::string_view(hint.data(), hint.size())));
}

std::vector<std::string> AllowedEnvironment(const std::vector<std::string>& environment) {
  constexpr std::array<const char*, 16> kNames = {"PATH",
                                                  "HOME",
                                                  "USER",
                                                  "LOGNAME",
                                                  "LANG",
                                                  "TZ",
                                                  "TMPDIR",
                                                  "TERM",
                                                  "SHELL",
                                                  "HOSTNAME",
                                                  "GLIBC_TUNABLES",
                                                  "LD_LIBRARY_PATH",
                                                  "KMP_AFFINITY",
                                                  "OMPI_ALLOW_RUN_AS_ROOT",
                                                  "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                                  "K_MPI_JOB_ROLE"};
  // Without OMPI_COMM_* and PMIX_RANK: this process may itself be a rank of another MPI program.
  constexpr std::array<const char*, 16> kPrefixes = {
      "LC_",  "OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "SLURM_", "CUDA_",  "NVIDIA_", "NCCL_",
      "UCX_", "OPENBLAS_", "MKL_",      "GOMP_",     "OMP_",   "BRAID_", "ASAN_",   "TSAN_"};
  std::vector<std::string> allowed;
  for (const std::string& variable : environment) {
    if (NamesASecret(variable)) continue;
    const auto named = [&](const char* name) {
      return absl::StartsWith(variable, absl::StrCat(name, "="));
    };
    const auto prefixed = [&](const char* prefix) { return absl::StartsWith(variable, prefix); };
    if (std::any_of(kNames.begin(), kNames.end(), named) ||
        std::any_of(kPrefixes.begin(), kPrefixes.end(), prefixed)) {
      allowed.push_back(variable);
    }
  }
  return allowed;
}

std::vector<std::string> TrainerEnvironment() {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.emplace_back(*variable);
  }
  return AllowedEnvironment(environment);
}

}  // namespace braid
