#include "retrieval/contriever_process.h"

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr char kProgramName[] = "braid-embedder";
constexpr char kProgramVariable[] = "BRAID_EMBEDDER_PROGRAM";
// Then another caller has its turn. Many enough for batches of like length.
constexpr size_t kTextsAtOnce = 256;

// What the tensor library reads, and what programs need to start; whatever else
// surrounds us, tokens too, stays out.
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

std::vector<char*> PointersTo(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts the program with `socket` as its standard input and no other descriptor but
// the standard streams. A group of its own keeps it from the terminal's interrupt,
// which is for its parent.
absl::StatusOr<pid_t> Spawn(const std::filesystem::path& program,
                            std::vector<std::string> arguments, int socket) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy = [&] {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  };
  posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> environment = Environment();
  pid_t child = -1;
  const int error = posix_spawn(&child, program.c_str(), &files, &attributes,
                                PointersTo(arguments).data(), PointersTo(environment).data());
  if (error != 0) return SystemError("start", program, error);
  return child;
}

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
                                          absl::StrJoin(paths, ", "), ". Build it, or set ",
                                          kProgramVariable, " to its path."));
}

// The running process and the socket to it.
class ContrieverProcess::Child {
 public:
  static absl::StatusOr<std::unique_ptr<Child>> Start(const ContrieverProcessOptions& options) {
    ASSIGN_OR_RETURN(const std::filesystem::path program, FindEmbedderProgram());
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return SystemError("open a socket to", program, errno);
    }
    const absl::Cleanup close_theirs = [&] { close(ends[1]); };
    auto child = std::unique_ptr<Child>(new Child(ends[0]));
    ASSIGN_OR_RETURN(child->pid_, Spawn(program,
                                        {kProgramName, "--model", options.directory.string(),
                                         "--max-tokens", absl::StrCat(options.max_tokens),
                                         "--threads", absl::StrCat(options.num_threads)},
                                        ends[1]));
    return child;
  }
  ~Child() { End(/*is_ending=*/false); }

  EmbedderConnection& connection() { return connection_; }
  pid_t pid() const { return pid_; }

  // `status` of a connection of no further use, with how the process ended where it did.
  absl::Status Explain(const absl::Status& status) {
    const bool gone = absl::IsUnavailable(status);
    End(gone);
    if (!gone) return status;
    if (WIFSIGNALED(ended_)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kProgramName, " was killed by signal ", WTERMSIG(ended_), " (",
                       strsignal(WTERMSIG(ended_)), "). Was memory short? Lower max_tokens"));
    }
    return absl::InternalError(
        absl::StrCat(kProgramName, " ended with exit code ", WEXITSTATUS(ended_)));
  }

 private:
  explicit Child(int socket) : connection_(socket) {}

  // It has nothing to save. `is_ending`: it does so by itself, and how is of interest.
  void End(bool is_ending) {
    constexpr int kMilliseconds = 5000;
    for (int i = 0; is_ending && i < kMilliseconds; ++i) {
      if (Reap(WNOHANG)) return;
      usleep(1000);
    }
    if (pid_ > 0) kill(pid_, SIGKILL);
    while (!Reap(0)) continue;
  }
  // Whether there is no such process any more.
  bool Reap(int options) {
    if (pid_ <= 0) return true;
    const pid_t waited = waitpid(pid_, &ended_, options);
    if (waited == 0 || (waited < 0 && errno == EINTR)) return false;
    pid_ = -1;
    return true;
  }

  EmbedderConnection connection_;
  pid_t pid_ = -1;
  int ended_ = 0;
};

ContrieverProcess::ContrieverProcess(const ContrieverProcessOptions& options) : options_(options) {}
ContrieverProcess::~ContrieverProcess() = default;

absl::StatusOr<std::unique_ptr<ContrieverProcess>> ContrieverProcess::Start(
    const ContrieverProcessOptions& options) {
  std::unique_ptr<ContrieverProcess> process(new ContrieverProcess(options));
  ASSIGN_OR_RETURN(process->child_, Child::Start(options));
  auto hello = process->child_->connection().ReceiveHello(options.keep_going);
  if (!hello.ok()) return process->child_->Explain(hello.status());
  process->hello_ = *std::move(hello);
  return process;
}

absl::Status ContrieverProcess::Restart() const {
  child_.reset();
  ASSIGN_OR_RETURN(child_, Child::Start(options_));
  const auto hello = child_->connection().ReceiveHello(options_.keep_going);
  if (!hello.ok()) return child_->Explain(hello.status());
  if (hello->fingerprint == hello_.fingerprint) return absl::OkStatus();
  child_.reset();
  return absl::FailedPreconditionError(absl::StrCat(
      options_.directory.string(), ": the model has changed while it was in use: it was ",
      hello_.fingerprint, " and is ", hello->fingerprint, "; start anew"));
}

absl::StatusOr<int64_t> ContrieverProcess::EmbedOnce(std::span<const std::string_view> texts,
                                                     std::span<float> vectors) const {
  const auto num_truncated = child_->connection().Embed(texts, vectors, options_.keep_going);
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
    return absl::InvalidArgumentError(absl::StrCat("contriever: room for ", vectors.size(),
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
