#include "retrieval/contriever_process.h"

#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/child_process.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr char kProgramName[] = "braid-embedder";
constexpr char kProgramVariable[] = "BRAID_EMBEDDER_PROGRAM";
// Texts of a call before another caller may proceed; enough to form batches of similar length.
constexpr size_t kTextsAtOnce = 256;
// Maximum time for a process to exit after it has closed its socket.
constexpr int kEndMilliseconds = 5000;

// Returns the variables that the tensor library reads and programs need to start. All others, such
// as access tokens, are withheld.
std::vector<std::string> Environment() {
  constexpr std::array<const char*, 15> kAllowed = {"PATH=",     "HOME=",   "LANG=",
                                                    "LC_",       "TMPDIR=", "LD_LIBRARY_PATH=",
                                                    "OPENBLAS_", "OMP_",    "GOMP_",
                                                    "MKL_",      "CUDA_",   "ATEN_",
                                                    "ASAN_",     "TSAN_",   "BRAID_BLAS_CHOSEN="};
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const auto begins = [&](const char* name) { return absl::StartsWith(*variable, name); };
    if (std::ranges::any_of(kAllowed, begins)) environment.emplace_back(*variable);
  }
  return environment;
}

// Returns the processor time that a process has used; nullopt if the system does not report it.
std::optional<std::chrono::nanoseconds> ProcessorTime(pid_t pid) {
  clockid_t of_process = 0;
  timespec used = {};
  if (clock_getcpuclockid(pid, &of_process) != 0 || clock_gettime(of_process, &used) != 0) {
    return std::nullopt;
  }
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// Recognizes a process that hangs while it is waited for. A slow encoder may take an hour for a
// call, so the duration of a call says little; but it uses processor time all along. A process that
// uses it without an end is recognized late, after `max_call`.
class HangWatch {
 public:
  HangWatch(pid_t pid, const ContrieverProcessOptions& options)
      : pid_(pid), max_idle_(options.max_idle), max_call_(options.max_call) {}

  // Returns DEADLINE_EXCEEDED if the process has used no processor time for `max_idle`, or was
  // waited for during `max_call`. Called several times a second during a wait.
  absl::Status Check() {
    // A longer pause means that this process was stopped, and the other probably with it.
    constexpr std::chrono::nanoseconds kLongestPause = std::chrono::seconds(1);
    const auto now = std::chrono::steady_clock::now();
    const auto pause =
        std::min<std::chrono::nanoseconds>(now - std::exchange(checked_, now), kLongestPause);
    const std::optional<std::chrono::nanoseconds> used = ProcessorTime(pid_);
    const bool is_idle = used.has_value() && used == used_;
    used_ = used;
    idle_ = is_idle ? idle_ + pause : std::chrono::nanoseconds(0);
    waited_ += pause;
    if (idle_ >= max_idle_) return Hangs("used no processor time for ", max_idle_);
    return waited_ >= max_call_ ? Hangs("has not answered for ", max_call_) : absl::OkStatus();
  }

 private:
  absl::Status Hangs(const char* what, std::chrono::milliseconds time) const {
    return absl::DeadlineExceededError(absl::StrCat(kProgramName, " hangs: process ", pid_, " ",
                                                    what, static_cast<double>(time.count()) / 1000,
                                                    " s"));
  }

  const pid_t pid_;
  const std::chrono::milliseconds max_idle_, max_call_;
  std::chrono::steady_clock::time_point checked_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::nanoseconds> used_;
  std::chrono::nanoseconds idle_{0}, waited_{0};
};

}  // namespace

absl::StatusOr<std::filesystem::path> FindEmbedderProgram() {
  std::vector<std::string> paths;
  if (const char* path = std::getenv(kProgramVariable); path != nullptr && *path != '\0') {
    paths = {path};
  } else {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
    for (const char* folder : {".", "../bin"}) {
      paths.push_back((program / folder / kProgramName).lexically_normal().string());
    }
  }
  for (const std::string& path : paths) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return absl::NotFoundError(absl::StrCat(kProgramName, " not found: looked for ",
                                          absl::StrJoin(paths, ", "), "; build it or set ",
                                          kProgramVariable, " to its path"));
}

// The running process and the socket connected to its standard input.
class ContrieverProcess::Child {
 public:
  static absl::StatusOr<std::unique_ptr<Child>> Start(const ContrieverProcessOptions& options) {
    ASSIGN_OR_RETURN(const std::filesystem::path program, FindEmbedderProgram());
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return SystemError("open a socket to", program, errno);
    }
    const absl::Cleanup close_child_end = [&] { close(ends[1]); };
    auto child = std::unique_ptr<Child>(new Child(ends[0]));
    std::vector<std::string> arguments = {kProgramName,
                                          "--model",
                                          options.directory.string(),
                                          "--max-tokens",
                                          absl::StrCat(options.max_tokens),
                                          "--threads",
                                          absl::StrCat(options.num_threads)};
    if (options.prefix) {
      arguments.push_back(options.prefix->empty()
                              ? "--no-text-prefix"
                              : absl::StrCat("--text-prefix=", *options.prefix));
    }
    ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start({.program = program,
                                                                .arguments = std::move(arguments),
                                                                .environment = Environment(),
                                                                .standard_input = ends[1]}));
    child->process_.emplace(std::move(process));
    return child;
  }

  EmbedderConnection& connection() { return connection_; }
  pid_t pid() const { return process_->pid(); }

  // Returns the check for one wait for the process: that of the options, then whether it hangs.
  StopCheck KeepGoing(const ContrieverProcessOptions& options) const {
    return [keep_going = options.keep_going,
            watch = HangWatch(pid(), options)]() mutable -> absl::Status {
      if (keep_going) RETURN_IF_ERROR(keep_going());
      return watch.Check();
    };
  }

  // Returns why the connection failed with `status`: how the process ended if it has closed its
  // end, `status` otherwise. Ends the process.
  absl::Status Explain(const absl::Status& status) {
    const bool closed = absl::IsUnavailable(status);
    if (closed) process_->WaitFor(kEndMilliseconds);
    const ChildProcess::End end = process_->Kill();
    if (!closed) return status;
    if (end.signal.has_value()) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kProgramName, " was killed by signal ", *end.signal, " (",
                       strsignal(*end.signal), "; probably out of memory); lower max_tokens"));
    }
    return absl::InternalError(absl::StrCat(kProgramName, " exited with code ",
                                            end.exit_code ? absl::StrCat(*end.exit_code) : "?",
                                            " before it answered"));
  }

 private:
  explicit Child(int socket) : connection_(socket) {}

  EmbedderConnection connection_;
  std::optional<ChildProcess> process_;
};

ContrieverProcess::ContrieverProcess(const ContrieverProcessOptions& options) : options_(options) {}
ContrieverProcess::~ContrieverProcess() = default;

absl::StatusOr<std::unique_ptr<ContrieverProcess>> ContrieverProcess::Start(
    const ContrieverProcessOptions& options) {
  std::unique_ptr<ContrieverProcess> process(new ContrieverProcess(options));
  ASSIGN_OR_RETURN(process->child_, Child::Start(options));
  Child& child = *process->child_;
  auto hello = child.connection().ReceiveHello(child.KeepGoing(options));
  if (!hello.ok()) return child.Explain(hello.status());
  process->hello_ = *std::move(hello);
  return process;
}

absl::Status ContrieverProcess::Restart() const {
  child_.reset();
  ASSIGN_OR_RETURN(child_, Child::Start(options_));
  const auto hello = child_->connection().ReceiveHello(child_->KeepGoing(options_));
  if (!hello.ok()) return child_->Explain(hello.status());
  if (hello->fingerprint == hello_.fingerprint) return absl::OkStatus();
  child_.reset();
  return absl::FailedPreconditionError(
      absl::StrCat(options_.directory.string(), ": the model has changed while it was in use: got ",
                   hello->fingerprint, ", expected ", hello_.fingerprint, "; start the job again"));
}

absl::StatusOr<int64_t> ContrieverProcess::EmbedOnce(std::span<const std::string_view> texts,
                                                     std::span<float> vectors) const {
  const auto num_truncated =
      child_->connection().Embed(texts, vectors, child_->KeepGoing(options_));
  if (num_truncated.ok() || child_->connection().usable()) return num_truncated;
  const absl::Status status = child_->Explain(num_truncated.status());
  child_.reset();
  return status;
}

absl::Status ContrieverProcess::Embed(std::span<const std::string_view> texts,
                                      std::span<float> vectors) const {
  return EmbedAndCountCut(texts, vectors).status();
}

absl::StatusOr<int64_t> ContrieverProcess::EmbedAndCountCut(std::span<const std::string_view> texts,
                                                            std::span<float> vectors) const {
  if (vectors.size() != texts.size() * static_cast<size_t>(hello_.dimension)) {
    return absl::InvalidArgumentError(absl::StrCat("contriever: got an output of ", vectors.size(),
                                                   " values, expected ", texts.size(), " x ",
                                                   hello_.dimension));
  }
  const auto width = static_cast<size_t>(hello_.dimension);
  int64_t num_truncated = 0;
  for (size_t begin = 0; begin < texts.size(); begin += kTextsAtOnce) {
    const size_t count = std::min(kTextsAtOnce, texts.size() - begin);
    ASSIGN_OR_RETURN(const int64_t cut, EmbedSome(texts.subspan(begin, count),
                                                  vectors.subspan(begin * width, count * width)));
    num_truncated += cut;
  }
  return num_truncated;
}

absl::StatusOr<int64_t> ContrieverProcess::EmbedSome(std::span<const std::string_view> texts,
                                                     std::span<float> vectors) const {
  const std::lock_guard lock(mutex_);
  const bool fresh = child_ == nullptr;
  if (fresh) RETURN_IF_ERROR(Restart());
  absl::StatusOr<int64_t> num_truncated = EmbedOnce(texts, vectors);
  const bool died = child_ == nullptr && (absl::IsResourceExhausted(num_truncated.status()) ||
                                          absl::IsDeadlineExceeded(num_truncated.status()) ||
                                          absl::IsInternal(num_truncated.status()));
  if (died && !fresh) {
    RETURN_IF_ERROR(Restart());
    num_truncated = EmbedOnce(texts, vectors);
  }
  return num_truncated;
}

pid_t ContrieverProcess::pid() const {
  const std::lock_guard lock(mutex_);
  return child_ == nullptr ? 0 : child_->pid();
}

}  // namespace braid
