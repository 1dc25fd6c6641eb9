#include "base/child_process.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/clock.h"
#include "base/file_error.h"

namespace braid {
namespace {

constexpr int kCallbackMilliseconds = 50;

// posix_spawn rather than fork: other threads may hold locks, of the allocator for one, that would
// never be released in a forked copy.
absl::StatusOr<pid_t> Spawn(const ChildProcessOptions& options) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy = [&] {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  };
  if (options.standard_input >= 0) {
    posix_spawn_file_actions_adddup2(&files, options.standard_input, STDIN_FILENO);
  }
  if (options.standard_output >= 0) {
    posix_spawn_file_actions_adddup2(&files, options.standard_output, STDOUT_FILENO);
  }
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const std::vector<char*> arguments = ExecPointers(options.arguments);
  const std::vector<char*> environment =
      options.environment ? ExecPointers(*options.environment) : std::vector<char*>();
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, options.program.c_str(), &files, &attributes, arguments.data(),
                  options.environment ? environment.data() : environ);
  if (error != 0) return SystemError("start", options.program, error);
  return pid;
}

// waitpid that continues after signals.
pid_t WaitForChild(pid_t pid, int* status) {
  pid_t reaped;
  do {
    reaped = waitpid(pid, status, 0);
  } while (reaped < 0 && errno == EINTR);
  return reaped;
}

}  // namespace

std::vector<char*> ExecPointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const ChildProcessOptions& options) {
  const absl::StatusOr<pid_t> pid = Spawn(options);
  if (!pid.ok()) return pid.status();
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, *pid, 0));
  if (descriptor >= 0) return ChildProcess(*pid, descriptor);
  const int error = errno;
  kill(*pid, SIGKILL);
  WaitForChild(*pid, nullptr);
  return SystemError("watch the process of", options.program, error);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      end_(other.end_) {}

ChildProcess::~ChildProcess() {
  Kill();
  if (descriptor_ >= 0) close(descriptor_);
}

bool ChildProcess::WaitFor(int milliseconds) {
  if (pid_ == 0) return true;
  pollfd ended = {.fd = descriptor_, .events = POLLIN, .revents = 0};
  const double deadline = SteadySeconds() + milliseconds * 1e-3;
  // Continues after signals, which end poll early.
  while (poll(&ended, 1, std::max(milliseconds, 0)) < 0) {
    milliseconds = static_cast<int>((deadline - SteadySeconds()) * 1e3);
  }
  return ended.revents != 0;
}

absl::StatusOr<ChildProcess::End> ChildProcess::Wait(
    const std::function<absl::Status()>& keep_going) {
  while (!WaitFor(kCallbackMilliseconds)) {
    const absl::Status status = keep_going ? keep_going() : absl::OkStatus();
    if (status.ok()) continue;
    Kill();
    return status;
  }
  return Reap();
}

ChildProcess::End ChildProcess::Kill() {
  // Through the pidfd: where SIGCHLD is ignored the kernel has reaped a process that ended, and its
  // id may belong to another process already.
  if (pid_ > 0) syscall(SYS_pidfd_send_signal, descriptor_, SIGKILL, nullptr, 0);
  return Reap();
}

ChildProcess::End ChildProcess::Reap() {
  if (pid_ == 0) return end_;
  int status = 0;
  if (WaitForChild(pid_, &status) == pid_) {
    if (WIFEXITED(status)) end_.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) end_.signal = WTERMSIG(status);
  }
  pid_ = 0;
  return end_;
}

}  // namespace braid
