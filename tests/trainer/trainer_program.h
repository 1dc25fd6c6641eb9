// The braid-trainer program as a child process, directly or under mpirun.
#ifndef BRAID_TESTS_TRAINER_TRAINER_PROGRAM_H_
#define BRAID_TESTS_TRAINER_TRAINER_PROGRAM_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "runs/run_directory.h"
#include "tests/program.h"

namespace braid {

// Starts braid-trainer COMMAND PATH, or braid-trainer without arguments if `command` is empty.
TestProgram Trainer(const std::string& command = "", const std::filesystem::path& path = "");

// Starts mpirun -n RANKS braid-trainer train RUN.
TestProgram MpiTrainer(int ranks, const std::filesystem::path& run);

// Blocks until the run has done `step` steps, for at most 60 s. Returns whether it has.
bool WaitForStep(const RunDirectory& run, int64_t step);

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_TRAINER_PROGRAM_H_
