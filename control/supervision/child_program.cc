#include "control/supervision/child_program.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/child_process.h"
#include "base/status_macros.h"

namespace braid {
namespace {

void CloseEnd(int* end) {
  if (*end >= 0) close(*end);
  *end = -1;
}

// Everything the child needs, prepared before fork: afterwards only
// async-signal-safe calls are allowed, because another thread may have held the
// allocator's lock.
struct Preparation {
  const ChildProgramSpec& spec;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  pid_t parent;
};

// Signals that this process blocks or ignores would stay so after exec.
void ResetSignals() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Duplicates a descriptor to a number above the three streams. When this process was started with a
// stream closed, 0, 1 or 2 may be the number of any file, which dup2 below would overwrite.
int AboveStreams(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 3); }

bool RedirectStreams(const ChildProgramSpec& spec) {
  const int null = AboveStreams(open("/dev/null", O_RDWR | O_CLOEXEC));
  const int in = spec.standard_input >= 0 ? AboveStreams(spec.standard_input) : null;
  const int out = spec.standard_output >= 0 ? AboveStreams(spec.standard_output) : null;
  const int err = spec.standard_error >= 0 ? AboveStreams(spec.standard_error) : null;
  return null >= 0 && dup2(in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(err, 2) >= 0;
}

bool PrepareChild(const Preparation& preparation) {
  const ChildProgramSpec& spec = preparation.spec;
  if (spec.new_session && setsid() < 0) return false;
  if (spec.die_with_parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
    // The parent may have died before the line above.
    if (getppid() != preparation.parent) _exit(127);
  }
  // CloseOthers has kept the descriptors that become streams, which may lack O_CLOEXEC. Failure is
  // ignored: kernels before 5.11 lack the call.
  syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  return RedirectStreams(spec) && chdir(spec.directory.c_str()) == 0;
}

// Closes all descriptors except the three streams and these; -1 is ignored. Failure is ignored:
// kernels before 5.9 lack the call.
void CloseOthers(std::array<int, 5> kept) {
  std::ranges::sort(kept);
  unsigned first = 3;
  for (const int fd : kept) {
    const auto next = static_cast<unsigned>(fd);
    if (fd < 0 || next < first) continue;
    if (next > first) syscall(SYS_close_range, first, next - 1, 0U);
    first = next + 1;
  }
  syscall(SYS_close_range, first, ~0U, 0U);
}

[[noreturn]] void RunChild(const Preparation& preparation, int gate, int outcome) {
  // Before the wait, so that no signal handler of the parent runs in the child.
  ResetSignals();
  // Before the wait, too: of two children that are forked at the same time, each would hold the
  // other's gate open. After the death of the parent both would wait forever, and keep its port and
  // its locks.
  const ChildProgramSpec& spec = preparation.spec;
  CloseOthers({gate, outcome, spec.standard_input, spec.standard_output, spec.standard_error});
  char go = 0;
  ssize_t n = 0;
  while ((n = read(gate, &go, 1)) < 0 && errno == EINTR) {
  }
  // Not exit, which would run the parent's exit handlers and flush its buffers a second time.
  if (n != 1) _exit(127);
  if (PrepareChild(preparation)) {
    execve(preparation.spec.program.c_str(), preparation.arguments.data(),
           preparation.environment.data());
  }
  const int error = errno;
  if (write(outcome, &error, sizeof(error)) != sizeof(error)) _exit(126);
  _exit(127);
}

}  // namespace

absl::StatusOr<Pipe> Pipe::Open() {
  Pipe pipe;
  if (pipe2(pipe.ends_, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot open a pipe: ", std::strerror(errno), "; see ulimit -n"));
  }
  // 0, 1 and 2 are replaced in the child, so no end of a pipe may have these numbers.
  for (int& end : pipe.ends_) {
    if (end > 2) continue;
    const int moved = fcntl(end, F_DUPFD_CLOEXEC, 3);
    if (moved < 0) return absl::ResourceExhaustedError("cannot open a pipe; see ulimit -n");
    close(std::exchange(end, moved));
  }
  return pipe;
}

Pipe::Pipe(Pipe&& other) noexcept {
  ends_[0] = std::exchange(other.ends_[0], -1);
  ends_[1] = std::exchange(other.ends_[1], -1);
}
Pipe::~Pipe() {
  CloseReadEnd();
  CloseWriteEnd();
}
void Pipe::CloseReadEnd() { CloseEnd(&ends_[0]); }
void Pipe::CloseWriteEnd() { CloseEnd(&ends_[1]); }

absl::StatusOr<ChildProgram> ChildProgram::Fork(const ChildProgramSpec& spec) {
  ASSIGN_OR_RETURN(Pipe gate, Pipe::Open());
  ASSIGN_OR_RETURN(Pipe outcome, Pipe::Open());
  const Preparation preparation{spec, ExecPointers(spec.arguments), ExecPointers(spec.environment),
                                getpid()};
  const pid_t pid = fork();
  if (pid < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot start a process for ", spec.program,
                                                     ": ", std::strerror(errno),
                                                     "; see ulimit -u"));
  }
  if (pid == 0) {
    // By itself as well, since CloseOthers may have no effect: with this copy the gate would stay
    // open after the death of the parent, and the child would wait forever.
    close(gate.write_end());
    RunChild(preparation, gate.read_end(), outcome.write_end());
  }
  gate.CloseReadEnd();
  outcome.CloseWriteEnd();
  return ChildProgram(pid, spec.program, std::move(gate), std::move(outcome));
}

ChildProgram::~ChildProgram() {
  // The gate is still open only if Execute was never called. Closing it would not wake the child
  // while another waiting child holds a copy of the write end, hence the signal.
  if (gate_.write_end() < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

absl::Status ChildProgram::Execute() {
  const char go = 1;
  const bool sent = write(gate_.write_end(), &go, 1) == 1;
  gate_.CloseWriteEnd();
  int error = 0;
  ssize_t n = 0;
  while ((n = read(outcome_.read_end(), &error, sizeof(error))) < 0 && errno == EINTR) {
  }
  if (sent && n == 0) return absl::OkStatus();
  waitpid(pid_, nullptr, 0);
  // The child has sent no errno if it was killed while it waited.
  return absl::FailedPreconditionError(
      absl::StrCat("cannot execute ", program_, ": ", std::strerror(error != 0 ? error : ECHILD)));
}

int WaitForExit(pid_t pid, const std::function<bool()>& cancelled, bool* killed) {
  int status = 0;
  for (pid_t waited = 0; waited != pid;) {
    if (!*killed && cancelled()) {
      *killed = true;
      kill(pid, SIGKILL);
    }
    waited = waitpid(pid, &status, *killed ? 0 : WNOHANG);
    if (waited == 0) poll(nullptr, 0, 2);
    BRAID_CHECK(waited >= 0 || errno == EINTR) << "waitpid: " << std::strerror(errno);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace braid
