// Flags that several commands which evaluate, analyze or run a model have. What the flags set must
// outlive the command.
#ifndef BRAID_CLI_EVALUATION_FLAGS_H_
#define BRAID_CLI_EVALUATION_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace braid {

// Accepts a path to write a page or a table to. Below the directory of a run, a checkpoint or a
// dataset only names in .html and .csv are accepted: braid's own files there never have these, so
// none of them is overwritten.
CLI::Validator OutsideOfRecords();

// Refuses "-", which elsewhere means standard output.
CLI::Validator NotStandardOutput();

// Adds the required argument MODEL.
void AddModel(CLI::App* command, std::string* model);

// Adds --data, a corpus job or a dataset whose held-out text is used; "" for that of the run.
void AddHeldoutText(CLI::App* command, std::string* dataset);

// Adds `flag`, the directory with the files of tasks; "" without it.
void AddTaskFiles(CLI::App* command, const std::string& flag, std::string* directory);

// Adds --output of a command that writes a page with charts; "" without the flag.
void AddPage(CLI::App* command, std::string* path);

// Adds --active-experts, the experts per token of a TOKEN_CHOICE model; 0 without the flag.
void AddActiveExperts(CLI::App* command, int32_t* active_experts);

// Adds --active-experts with several numbers, with each of which models are scored.
void AddActiveExperts(CLI::App* command, std::vector<int32_t>* active_experts);

// Adds --routing-seed.
void AddRoutingSeed(CLI::App* command, std::optional<uint64_t>* routing_seed);

// Adds --max-windows; 0 without the flag.
void AddMaxWindows(CLI::App* command, int32_t* max_windows);

// Adds --threads; 0 without the flag.
void AddThreads(CLI::App* command, int32_t* threads);

// Noise on the token embeddings in evaluation.
struct InputNoiseFlags {
  double noise = 0;
  uint64_t seed = 0;
};
// Adds --embedding-noise and --noise-seed.
void AddInputNoise(CLI::App* command, InputNoiseFlags* flags);

}  // namespace braid

#endif  // BRAID_CLI_EVALUATION_FLAGS_H_
