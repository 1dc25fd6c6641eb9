#include "tests/program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>
#include <utility>

namespace braid {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kNotStarted = 127;  // the code that shells use

std::string ReadWholeFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The test's environment with `variables`, which replace those of the same name.
std::vector<std::string> Environment(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  const auto is_replaced = [&](std::string_view inherited) {
    const std::string_view name = inherited.substr(0, inherited.find('=') + 1);
    for (const std::string& variable : variables) {
      if (variable.starts_with(name)) return true;
    }
    return false;
  };
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    if (!is_replaced(*inherited)) all.emplace_back(*inherited);
  }
  return all;
}

// What the child needs between fork() and execve(). It is prepared before fork(): the test may have
// other threads, so the child may call only async-signal-safe functions.
struct Launch {
  std::vector<char*> arguments, environment;
  const char* directory;
  const char *input, *output, *errors;
  bool one_file;
  std::optional<uint64_t> max_file_bytes;
};

bool Redirect(const char* path, int flags, int descriptor) {
  const int file = open(path, flags | O_CLOEXEC, 0644);
  return file >= 0 && dup2(file, descriptor) == descriptor;
}

[[noreturn]] void Execute(const Launch& launch) {
  constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool redirected = Redirect(launch.input, O_RDONLY, STDIN_FILENO) &&
                          Redirect(launch.output, kWrite, STDOUT_FILENO) &&
                          (launch.one_file ? dup2(STDOUT_FILENO, STDERR_FILENO) >= 0
                                           : Redirect(launch.errors, kWrite, STDERR_FILENO));
  if (!redirected || chdir(launch.directory) != 0) _exit(kNotStarted);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (launch.max_file_bytes.has_value()) {
    const rlimit file_size = {*launch.max_file_bytes, *launch.max_file_bytes};
    setrlimit(RLIMIT_FSIZE, &file_size);
  }
  execve(launch.arguments[0], launch.arguments.data(), launch.environment.data());
  _exit(kNotStarted);
}

}  // namespace

TestProgram::TestProgram(std::vector<std::string> arguments, TestProgramOptions options)
    : name_(arguments[0]), output_(std::move(options.output)), errors_(std::move(options.errors)) {
  if (output_.empty() || errors_.empty()) {
    std::string name = (fs::temp_directory_path() / "program.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    scratch_ = name;
    if (output_.empty()) output_ = scratch_ / "out";
    if (errors_.empty()) errors_ = scratch_ / "err";
  }
  std::vector<std::string> environment = Environment(options.variables);
  const fs::path directory = options.directory.empty() ? fs::current_path() : options.directory;
  const Launch launch = {.arguments = Pointers(arguments),
                         .environment = Pointers(environment),
                         .directory = directory.c_str(),
                         .input = options.input.c_str(),
                         .output = output_.c_str(),
                         .errors = errors_.c_str(),
                         .one_file = output_ == errors_,
                         .max_file_bytes = options.max_file_bytes};
  // WaitForOutput must not find what an earlier program has written into the same file.
  for (const fs::path& file : {output_, errors_}) {
    if (fs::is_regular_file(file)) fs::remove(file);
  }
  pid_ = fork();
  if (pid_ == 0) Execute(launch);
  if (pid_ < 0) {
    std::cerr << "cannot fork for " << name_ << std::endl;
    exit_code_ = kNotStarted;
  }
}

TestProgram::~TestProgram() {
  Kill();
  std::error_code ignored;
  if (!scratch_.empty()) fs::remove_all(scratch_, ignored);
}

void TestProgram::Signal(int signal) const {
  if (!exit_code_.has_value()) kill(pid_, signal);
}

bool TestProgram::IsRunning() {
  int status = 0;
  if (exit_code_.has_value() || waitpid(pid_, &status, WNOHANG) != pid_) {
    return !exit_code_.has_value();
  }
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

int TestProgram::Wait(std::chrono::seconds limit) {
  if (!WaitUntil([this] { return !IsRunning(); }, limit)) {
    std::cerr << name_ << " has not ended within " << limit.count() << " s and is killed\n"
              << err() << std::endl;
    Kill();
  }
  return *exit_code_;
}

void TestProgram::Kill() {
  Signal(SIGKILL);
  while (IsRunning()) std::this_thread::sleep_for(milliseconds(1));
}

std::string TestProgram::out() const { return ReadWholeFile(output_); }
std::string TestProgram::err() const { return ReadWholeFile(errors_); }

std::string TestProgram::WaitForOutput(std::string_view before, std::string_view after,
                                       std::chrono::seconds limit) {
  std::string found;
  WaitUntil(
      [&] {
        const bool is_last_look = !IsRunning();
        found = TextBetween(out(), before, after);
        return !found.empty() || is_last_look;
      },
      limit);
  return found;
}

std::string TextBetween(std::string_view text, std::string_view before, std::string_view after) {
  size_t begin = text.find(before);
  if (begin == std::string_view::npos) return "";
  begin += before.size();
  const size_t end = text.find(after, begin);
  if (end == std::string_view::npos) return "";
  return std::string(text.substr(begin, end - begin));
}

bool WaitUntil(const std::function<bool()>& condition, milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

bool RemoveDirectory(const fs::path& directory) {
  return WaitUntil([&] {
    std::error_code error;
    fs::remove_all(directory, error);
    return !error && !fs::exists(directory);
  });
}

}  // namespace braid
