#include "tests/trainer/trainer_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/atomic_file.h"
#include "gtest/gtest.h"
#include "tests/trainer/tiny_run.h"

namespace braid {

Program::Program(std::vector<std::string> arguments) : directory_(NewDirectory("program")) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, (directory_ / "out").c_str(), flags, 0644);
  posix_spawn_file_actions_addopen(&actions, 2, (directory_ / "err").c_str(), flags, 0644);
  const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(error, 0) << argv[0];
}

int Program::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Program::out() const { return *ReadFile(directory_ / "out"); }
std::string Program::err() const { return *ReadFile(directory_ / "err"); }

Program Trainer(const std::string& command, const std::filesystem::path& path) {
  if (command.empty()) return Program({BRAID_TRAINER});
  return Program({BRAID_TRAINER, command, path.string()});
}

Program MpiTrainer(int ranks, const std::filesystem::path& run) {
  return Program({BRAID_MPIRUN, "-n", std::to_string(ranks), "--allow-run-as-root",
                  "--oversubscribe", "--bind-to", "none", BRAID_TRAINER, "train", run.string()});
}

bool WaitForStep(const RunDirectory& run, int64_t step) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < deadline) {
    const auto metrics = run.ReadNewestMetrics();
    if (metrics.has_value() && metrics->step() >= step) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

}  // namespace braid
