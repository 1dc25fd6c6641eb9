#include "formats/tokenizer_process.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "formats/sentencepiece_library.h"

namespace braid {
namespace {

constexpr char kProgramName[] = "braid-tokenizer-trainer";
constexpr size_t kPendingBytes = 1 << 20;
constexpr int kAskMilliseconds = 50;

std::string DescriptorPath(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

absl::StatusOr<int> CreateMemoryFile(const char* name) {
  const int descriptor = memfd_create(name, MFD_CLOEXEC);
  if (descriptor < 0) return SystemError("create in memory", name, errno);
  return descriptor;
}

absl::Status WriteAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("write", "the tokenizer's training sample", errno);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

// Starts the program with these descriptors as its input and output and no others but stderr.
// A process group of its own keeps it from the terminal's interrupt, which is for its parent.
absl::StatusOr<pid_t> Spawn(const std::filesystem::path& program, std::array<std::string, 4> words,
                            int input, int output) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy = [&] {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  };
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  pid_t child = -1;
  const int error = posix_spawn(&child, program.c_str(), &files, &attributes, argv, environ);
  if (error != 0) return SystemError("start", program, error);
  return child;
}

// Waits until the process has ended, or returns the error of `keep_going`.
absl::Status WaitFor(pid_t child, const std::function<absl::Status()>& keep_going) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  if (descriptor < 0) return SystemError("watch", kProgramName, errno);
  const absl::Cleanup close_it = [descriptor] { close(descriptor); };
  pollfd ended = {.fd = descriptor, .events = POLLIN, .revents = 0};
  while (poll(&ended, 1, kAskMilliseconds) <= 0) {
    if (keep_going) RETURN_IF_ERROR(keep_going());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerProcess> TokenizerProcess::Create() {
  ASSIGN_OR_RETURN(const int sample, CreateMemoryFile("tokenizer-sample"));
  const auto output = CreateMemoryFile("tokenizer-model");
  if (!output.ok()) {
    close(sample);
    return output.status();
  }
  return TokenizerProcess(sample, *output);
}

TokenizerProcess::TokenizerProcess(TokenizerProcess&& other) noexcept
    : sample_(std::exchange(other.sample_, -1)),
      output_(std::exchange(other.output_, -1)),
      pending_(std::move(other.pending_)) {}

TokenizerProcess::~TokenizerProcess() {
  if (sample_ >= 0) close(sample_);
  if (output_ >= 0) close(output_);
}

absl::Status TokenizerProcess::AddSentence(std::string_view sentence) {
  const auto size = static_cast<uint32_t>(sentence.size());
  BRAID_CHECK(size == sentence.size()) << sentence.size();
  pending_.append(reinterpret_cast<const char*>(&size), sizeof(size));
  pending_.append(sentence);
  if (pending_.size() < kPendingBytes) return absl::OkStatus();
  return WriteAll(sample_, std::exchange(pending_, {}));
}

absl::StatusOr<TokenizerProcess::Outcome> TokenizerProcess::Train(
    int32_t vocab_size, double character_coverage,
    const std::function<absl::Status()>& keep_going) {
  // What is missing is said better here than by a process that cannot start.
  RETURN_IF_ERROR(OpenSentencePiece().status());
  ASSIGN_OR_RETURN(const std::filesystem::path module, FindSentencePieceModule());
  RETURN_IF_ERROR(WriteAll(sample_, std::exchange(pending_, {})));
  lseek(sample_, 0, SEEK_SET);
  ASSIGN_OR_RETURN(const pid_t child,
                   Spawn(module.parent_path() / kProgramName,
                         {kProgramName, absl::StrCat(vocab_size), absl::StrCat(character_coverage),
                          absl::StrCat(getpid())},
                         sample_, output_));
  const absl::Status waited = WaitFor(child, keep_going);
  if (!waited.ok()) kill(child, SIGKILL);
  int status = 0;
  pid_t reaped;
  do {
    reaped = waitpid(child, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  RETURN_IF_ERROR(waited);
  // Where SIGCHLD is ignored the system reaps it, and nobody learns how it ended.
  if (reaped != child) return SystemError("wait for", kProgramName, errno);
  if (WIFSIGNALED(status)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kProgramName, ": killed by signal ", WTERMSIG(status),
                     ". Was memory short? Lower tokenizer.sample_bytes and resume"));
  }
  if (WEXITSTATUS(status) > 1) {
    return absl::InternalError(
        absl::StrCat(kProgramName, ": ended with code ", WEXITSTATUS(status)));
  }
  ASSIGN_OR_RETURN(std::string text, ReadFile(DescriptorPath(output_)));
  return Outcome{WEXITSTATUS(status) == 0, std::move(text)};
}

}  // namespace braid
