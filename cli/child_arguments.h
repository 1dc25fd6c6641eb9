// Command lines of the programs that braid and braidd start. CLI11 is not included here: its
// headers take 5 seconds to compile in each program.
#ifndef BRAID_CLI_CHILD_ARGUMENTS_H_
#define BRAID_CLI_CHILD_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace braid {

// The Parse functions return the exit code when the program must exit, as ParseArguments does. The
// values in the structs are the defaults.

struct EmbedderArguments {
  std::string model = {};
  int32_t max_tokens = 0;                            // 0: all positions
  std::optional<std::string> prefix = std::nullopt;  // nullopt: the default prompt of the model
  int num_threads = 0;                               // 0: all cores
};
std::optional<int> ParseEmbedderArguments(int argc, char** argv, EmbedderArguments* arguments);

struct SupervisorArguments {
  std::string run_dir = {};
  bool reattach = false;
  double stop_grace_seconds = 0;
  double kill_grace_seconds = 0;
};
std::optional<int> ParseSupervisorArguments(int argc, char** argv, SupervisorArguments* arguments);

// A subcommand of braid-trainer whose only argument is a path.
struct PathSubcommand {
  const char *name, *help, *argument, *argument_help;
  bool needs_path = true;
};
struct TrainerArguments {
  // Index of the subcommand; nullopt: "serve", with the two values below.
  std::optional<size_t> subcommand = std::nullopt;
  std::string path = {};
  int num_threads = 0;  // 0: all cores
  bool together = false;
};
std::optional<int> ParseTrainerArguments(int argc, char** argv,
                                         std::span<const PathSubcommand> subcommands,
                                         TrainerArguments* arguments);

}  // namespace braid

#endif  // BRAID_CLI_CHILD_ARGUMENTS_H_
