#include "control/supervision/attempt_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/file_error.h"
#include "base/random_id.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "control/supervision/child_program.h"
#include "control/supervision/run_process.h"
#include "control/supervision/subprocess.h"

namespace braid {
namespace {

constexpr double kTermSeconds = 1;
// SIGKILL ends a process only once it leaves the kernel, which a hanging file system delays.
constexpr double kKillSeconds = 10;

std::string NameOfVariable(const std::string& variable) {
  return variable.substr(0, variable.find('=') + 1);
}

// The environment of this process, such as a scheduler's variables, overridden by the variables of
// the launch and the nonce of the attempt.
std::vector<std::string> EnvironmentOf(const LaunchCommand& command, const std::string& nonce) {
  std::vector<std::string> environment = TrainerEnvironment();
  std::vector<std::string> over = command.variables;
  over.push_back(absl::StrCat(kNonceVariable, "=", nonce));
  for (const std::string& variable : over) {
    std::erase_if(environment, [&](const std::string& known) {
      return NameOfVariable(known) == NameOfVariable(variable);
    });
    environment.push_back(variable);
  }
  return environment;
}

// trainer.log, open while the child is started.
struct LogFile {
  explicit LogFile(const RunDirectory& run)
      : descriptor(open(run.log().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {}
  ~LogFile() {
    if (descriptor >= 0) close(descriptor);
  }
  const int descriptor;
};

// mpirun reads the hostfile again in every attempt.
absl::Status CheckHostfile(const RunDirectory& run, const std::string& launched) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(HostfileOf(run.root())));
  if (text == launched) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(HostfileOf(run.root()).string(),
                   ": not the hosts that the run was launched on; it was damaged or "
                   "edited; 'braid resume ",
                   run.root().filename().string(), "' writes it again"));
}

void KillRanks(const RunDirectory& run) {
  for (const int64_t pid : RankProcesses(run)) kill(static_cast<pid_t>(pid), SIGKILL);
}

}  // namespace

std::filesystem::path HostfileOf(const std::filesystem::path& run_dir) {
  return run_dir / "hostfile";
}

absl::StatusOr<LaunchCommand> ReadLaunchCommand(const RunDirectory& run) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(run.launch()));
  ASSIGN_OR_RETURN(const nlohmann::json json, OpenSealedJson(text, run.launch()));
  LaunchCommand command;
  std::string hostfile;
  try {
    json.at("arguments").get_to(command.arguments);
    for (const auto& [name, value] : json.at("variables").items()) {
      command.variables.push_back(name + "=" + value.get<std::string>());
    }
    hostfile = json.value("hostfile", "");
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(
        absl::StrCat(run.launch().string(), ": not a launch command: ", error.what()));
  }
  if (command.arguments.empty()) {
    return absl::DataLossError(absl::StrCat(run.launch().string(), ": got no arguments"));
  }
  if (!hostfile.empty()) RETURN_IF_ERROR(CheckHostfile(run, hostfile));
  return command;
}

std::string NewNonce() { return RandomId(16); }

absl::StatusOr<AttemptProcess> AttemptProcess::Start(const RunDirectory& run,
                                                     const LaunchCommand& command,
                                                     const std::string& nonce, double now,
                                                     double fence_seconds) {
  ASSIGN_OR_RETURN(const std::string program, RequireProgram(command.arguments.front(), ""));
  const LogFile log(run);
  if (log.descriptor < 0) return SystemError("open", run.log(), errno);
  // The child is forked now and runs its program only after Execute, below. In between:
  // 1. attempt.json records the child. Ranks of earlier attempts read it and exit.
  // 2. exit.json is removed. If such a rank writes it again, its nonce shows that it is old.
  // 3. A pause of fence_seconds lets these ranks read attempt.json.
  ASSIGN_OR_RETURN(ChildProgram child,
                   ChildProgram::Fork({.program = program,
                                       .arguments = command.arguments,
                                       .environment = EnvironmentOf(command, nonce),
                                       .directory = run.root().string(),
                                       .standard_output = log.descriptor,
                                       .standard_error = log.descriptor,
                                       .new_session = true}));
  ProcessRecord record;
  record.nonce = nonce;
  record.launched_at = now;
  ASSIGN_OR_RETURN(record.identity, IdentifyProcess(child.pid()));
  RETURN_IF_ERROR(WriteProcessRecord(run.attempt(), record));
  RETURN_IF_ERROR(run.RemoveExit());
  SleepSeconds(fence_seconds);
  RETURN_IF_ERROR(child.Execute());
  return AttemptProcess(std::move(record), /*is_child=*/true);
}

std::optional<AttemptProcess> AttemptProcess::Find(const RunDirectory& run) {
  absl::StatusOr<ProcessRecord> record = ReadProcessRecord(run.attempt());
  if (!record.ok() || !IsAlive(record->identity)) return std::nullopt;
  return AttemptProcess(*std::move(record), /*is_child=*/false);
}

bool AttemptProcess::IsRunning() {
  // Once waitpid has returned the exit code, the id may belong to another process.
  if (exit_code_) return false;
  if (!is_child_) return IsAlive(record_.identity);
  int status = 0;
  const pid_t ended = waitpid(static_cast<pid_t>(record_.identity.pid), &status, WNOHANG);
  if (ended == 0) return true;
  if (ended > 0) exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

void AttemptProcess::Terminate() const {
  // The id may belong to another process by now where mpirun is not a child of this process.
  if (IsAlive(record_.identity)) kill(static_cast<pid_t>(record_.identity.pid), SIGTERM);
}

bool AttemptProcess::WaitUntilGone(const RunDirectory& run, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (IsRunning() || !RankProcesses(run).empty()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    SleepSeconds(0.02);
  }
  return true;
}

absl::Status AttemptProcess::End(const RunDirectory& run) {
  // mpirun gets SIGTERM before its ranks are killed; otherwise it would report their death as the
  // failure. Its daemons on other hosts end their ranks when it asks them to, or when they lose the
  // connection to it.
  Terminate();
  KillRanks(run);
  if (WaitUntilGone(run, kTermSeconds)) return absl::OkStatus();
  if (IsRunning()) kill(static_cast<pid_t>(record_.identity.pid), SIGKILL);
  // Again, for ranks that mpirun was just starting.
  KillRanks(run);
  if (WaitUntilGone(run, kKillSeconds)) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "processes of ", run.root().string(), " did not exit within ", kKillSeconds,
      " s of SIGKILL (possibly a hanging file system); the next attempt fences them off"));
}

}  // namespace braid
