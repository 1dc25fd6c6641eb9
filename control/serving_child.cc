#include "control/serving_child.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/directory_use.h"
#include "base/pipe_read.h"
#include "base/status_macros.h"
#include "control/child_event.h"
#include "control/model_child.h"
#include "control/supervision/subprocess.h"
#include "runs/model_path.h"

namespace braid {
namespace {

// The maximum length of a line; a report has the text of a few tokens.
constexpr size_t kMaxLineBytes = size_t{16} << 20;
// How long a child that has closed its streams may take to exit.
constexpr double kEndSeconds = 5;

void DoNotBlock(int descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

// Reads what a child that has exited left in a pipe.
void ReadRest(int descriptor, std::string* tail) {
  // Another child that is just being forked may hold the other end open, so the end of the stream
  // is not waited for.
  DoNotBlock(descriptor);
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = read(descriptor, buffer.data(), buffer.size())) > 0;) {
    tail->append(buffer.data(), static_cast<size_t>(n));
    CutToErrorTail(tail);
  }
}

std::vector<std::string> Arguments(const ServingChildSpec& spec) {
  std::vector<std::string> arguments = {spec.trainer, "serve", spec.model.string(), "--threads",
                                        absl::StrCat(spec.num_threads)};
  if (spec.together) arguments.push_back("--together");
  return arguments;
}

}  // namespace

struct ServingChild::Streams {
  Pipe in, out, err;
  std::string line;          // a line of standard output, unfinished
  std::string error_output;  // its tail
  bool open = true;
};

absl::StatusOr<std::unique_ptr<ServingChild>> ServingChild::Start(const ServingChildSpec& spec,
                                                                  Callbacks callbacks) {
  ServingChildSpec found = spec;
  ASSIGN_OR_RETURN(found.trainer,
                   RequireProgram(spec.trainer, "build it (ninja braid-trainer) beside braid"));
  ASSIGN_OR_RETURN(Pipe wake, Pipe::Open());
  DoNotBlock(wake.read_end());
  DoNotBlock(wake.write_end());
  std::unique_ptr<ServingChild> child(
      new ServingChild(std::move(found), std::move(callbacks), std::move(wake)));
  child->thread_ = std::thread(&ServingChild::Run, child.get());
  return child;
}

ServingChild::ServingChild(ServingChildSpec spec, Callbacks callbacks, Pipe wake)
    : spec_(std::move(spec)), callbacks_(std::move(callbacks)), wake_(std::move(wake)) {}

ServingChild::~ServingChild() {
  End();
  if (thread_.joinable()) thread_.join();
}

void ServingChild::Send(const v1::ServingCommand& command) {
  std::string line;
  const auto status = google::protobuf::util::MessageToJsonString(command, &line);
  BRAID_CHECK(status.ok()) << std::string(status.message());
  {
    const std::lock_guard lock(mutex_);
    if (command.cancel() && ForgetUnsent(command.id())) return;
    unsent_.push_back({command.id(), absl::StrCat(line, "\n")});
  }
  Wake();
}

// Removes the request if the child has read nothing of it; returns whether it did. Requires mutex_.
bool ServingChild::ForgetUnsent(uint64_t id) {
  const auto found = std::ranges::find(unsent_, id, &Unsent::id);
  if (found == unsent_.end() || (found == unsent_.begin() && written_ > 0)) return false;
  unsent_.erase(found);
  return true;
}

size_t ServingChild::unsent_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const Unsent& command : unsent_) bytes += command.line.size();
  return bytes;
}

void ServingChild::End() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  Wake();
}

void ServingChild::Wake() {
  const char byte = 1;
  // If the pipe is full, the thread is about to wake anyway.
  [[maybe_unused]] const ssize_t n = write(wake_.write_end(), &byte, 1);
}

bool ServingChild::ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

bool ServingChild::has_commands() const {
  const std::lock_guard lock(mutex_);
  return !unsent_.empty();
}

void ServingChild::Run() {
  // A write to a child that has exited must fail with EPIPE instead of killing this process.
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  const absl::Status status = Serve();
  callbacks_.on_end(ending() ? absl::OkStatus() : status);
}

absl::Status ServingChild::Serve() {
  RETURN_IF_ERROR(CheckChildThreads(spec_.num_threads));
  // In this thread, since it waits while a deletion has reserved the directory. The average of a
  // run's weights ("@ema") lies in the directory of the run.
  ASSIGN_OR_RETURN(const DirectoryUse use,
                   DirectoryUse::Share(spec_.home, SplitReference(spec_.model.string()).model));
  if (ending()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Pipe in, Pipe::Open());
  ASSIGN_OR_RETURN(Pipe out, Pipe::Open());
  ASSIGN_OR_RETURN(Pipe err, Pipe::Open());
  Streams streams{std::move(in), std::move(out), std::move(err), {}, {}, true};
  // Forked from this thread, because the child dies with the thread that forked it.
  ASSIGN_OR_RETURN(ChildProgram child,
                   ChildProgram::Fork({.program = spec_.trainer,
                                       .arguments = Arguments(spec_),
                                       .environment = ModelChildEnvironment(spec_.num_threads),
                                       .standard_input = streams.in.read_end(),
                                       .standard_output = streams.out.write_end(),
                                       .standard_error = streams.err.write_end(),
                                       .die_with_parent = true}));
  RETURN_IF_ERROR(child.Execute());
  streams.in.CloseReadEnd();
  streams.out.CloseWriteEnd();
  streams.err.CloseWriteEnd();
  DoNotBlock(streams.in.write_end());
  return Converse(child.pid(), streams);
}

// Moves data until the child has exited.
absl::Status ServingChild::Converse(pid_t pid, Streams& streams) {
  absl::Status status;
  while (status.ok() && streams.open && !ending()) status = Move(streams);
  // Closed streams mean that the child exits by itself; its exit code is reported. A child with
  // open streams is killed at once, since it has nothing to save.
  const double end = SteadySeconds() + (streams.open ? 0 : kEndSeconds);
  bool overdue = false;
  const int exit_code = WaitForExit(
      pid, [end] { return SteadySeconds() >= end; }, &overdue);
  ReadRest(streams.err.read_end(), &streams.error_output);
  if (!status.ok()) return status;
  const absl::Status failure = ModelChildFailure(
      "serve", {.exit_code = exit_code, .killed = false, .error_output = streams.error_output});
  const bool killed = exit_code > 128;
  if (!loaded_ && !killed) return failure;
  return absl::UnavailableError(
      absl::StrCat(failure.message(), exit_code == 128 + SIGKILL ? " (probably out of memory)" : "",
                   "; repeat the request to restart it"));
}

absl::Status ServingChild::Move(Streams& streams) {
  std::array<pollfd, 4> ready = {pollfd{streams.out.read_end(), POLLIN, 0},
                                 pollfd{streams.err.read_end(), POLLIN, 0},
                                 pollfd{wake_.read_end(), POLLIN, 0},
                                 pollfd{has_commands() ? streams.in.write_end() : -1, POLLOUT, 0}};
  if (poll(ready.data(), ready.size(), -1) <= 0) return absl::OkStatus();
  std::string woken;
  if (ready[2].revents != 0) ReadAvailable(wake_.read_end(), &woken);
  if (ready[3].revents != 0) Write(streams);
  // Standard output comes first: the end of standard error ends the loop, and reports that were
  // written before it must not be lost.
  if (ready[1].revents != 0 && ready[0].revents == 0) {
    // After the end of standard error, poll would otherwise return at once every time.
    if (!ReadAvailable(streams.err.read_end(), &streams.error_output)) streams.open = false;
    CutToErrorTail(&streams.error_output);
  }
  if (ready[0].revents == 0) return absl::OkStatus();
  streams.open &= ReadAvailable(streams.out.read_end(), &streams.line);
  size_t start = 0;
  for (size_t end; (end = streams.line.find('\n', start)) != std::string::npos; start = end + 1) {
    RETURN_IF_ERROR(Deliver(std::string_view(streams.line).substr(start, end - start)));
  }
  streams.line.erase(0, start);
  if (streams.line.size() <= kMaxLineBytes) return absl::OkStatus();
  return absl::InternalError("braid-trainer serve wrote an overlong line");
}

absl::Status ServingChild::Deliver(std::string_view line) {
  // Libraries may print as well; reports are the lines that hold a JSON object.
  if (line.empty() || line.front() != '{') return absl::OkStatus();
  ASSIGN_OR_RETURN(v1::ServingReport report, ParseChildEvent<v1::ServingReport>(line));
  loaded_ |= report.has_loaded();
  callbacks_.on_report(std::move(report));
  return absl::OkStatus();
}

void ServingChild::Write(Streams& streams) {
  const std::lock_guard lock(mutex_);
  if (unsent_.empty()) return;  // cancelled since poll
  const std::string& line = unsent_.front().line;
  const ssize_t n = write(streams.in.write_end(), line.data() + written_, line.size() - written_);
  if (n > 0) written_ += static_cast<size_t>(n);
  // The child no longer reads; its exit is detected on its standard output.
  const bool lost = n < 0 && errno == EPIPE;
  if (!lost && written_ < line.size()) return;
  unsent_.pop_front();
  written_ = 0;
}

}  // namespace braid
