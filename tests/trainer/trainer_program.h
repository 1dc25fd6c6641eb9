// The braid-trainer program as a child process, directly or under mpirun.
#ifndef BRAID_TESTS_TRAINER_TRAINER_PROGRAM_H_
#define BRAID_TESTS_TRAINER_TRAINER_PROGRAM_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runs/run_directory.h"

namespace braid {

// A child process whose output goes to files.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments);

  pid_t pid() const { return pid_; }
  // Waits for the end; returns the exit code, or 128 + signal.
  int Wait();
  std::string out() const;
  std::string err() const;

 private:
  std::filesystem::path directory_;
  pid_t pid_ = 0;
};

// Starts 'braid-trainer COMMAND PATH'; without COMMAND, without arguments.
Program Trainer(const std::string& command = "", const std::filesystem::path& path = "");

// Starts 'mpirun -n RANKS braid-trainer train RUN'.
Program MpiTrainer(int ranks, const std::filesystem::path& run);

// Waits until the run has completed `step` steps; returns false after a deadline.
bool WaitForStep(const RunDirectory& run, int64_t step);

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_TRAINER_PROGRAM_H_
