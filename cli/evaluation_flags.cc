#include "cli/evaluation_flags.h"

#include "cli/arguments.h"

namespace braid {

void AddModel(CLI::App* command, std::string* model) {
  command->add_option("model", *model, "Run id, run directory or checkpoint directory")->required();
}

void AddHeldoutText(CLI::App* command, std::string* dataset) {
  command->add_option("--data", *dataset,
                      "Corpus job or dataset directory with the held-out text (default: "
                      "the run's own)");
}

void AddTaskFiles(CLI::App* command, const std::string& flag, std::string* directory) {
  command->add_option(flag, *directory, "Directory with one folder of files per task");
}

void AddPage(CLI::App* command, std::string* path) {
  command->add_option("-o,--output", *path, "Write an HTML page with charts to this file");
}

void AddActiveExperts(CLI::App* command, int32_t* active_experts) {
  command
      ->add_option("--active-experts", *active_experts,
                   "Experts per token of a TOKEN_CHOICE model (default: as last trained)")
      ->check(PositiveInt32());
}

void AddActiveExperts(CLI::App* command, std::vector<int32_t>* active_experts) {
  command
      ->add_option(
          "--active-experts", *active_experts,
          "Score TOKEN_CHOICE models with these numbers of experts per token, separated by "
          "commas (default: as last trained)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(PositiveInt32());
}

void AddRoutingSeed(CLI::App* command, std::optional<uint64_t>* routing_seed) {
  command
      ->add_option("--routing-seed", *routing_seed,
                   "Seed for the gate RANDOM (default: use all experts)")
      ->check(Seed());
}

void AddMaxWindows(CLI::App* command, int32_t* max_windows) {
  command->add_option("--max-windows", *max_windows, "Maximum windows per domain (default: all)")
      ->check(PositiveInt32());
}

void AddThreads(CLI::App* command, int32_t* threads) {
  command->add_option("--threads", *threads, "Number of threads (default: all cores)")
      ->check(IntegerBetween(1, 1024));
}

void AddInputNoise(CLI::App* command, InputNoiseFlags* flags) {
  CLI::Option* const noise =
      command
          ->add_option(
              "--embedding-noise", flags->noise,
              "Add uniform noise of at most this many standard deviations of the embedding "
              "matrix to the token embeddings (default: 0)")
          ->check(AtLeastZero());
  command->add_option("--noise-seed", flags->seed, "Seed of that noise (default: 0)")
      ->check(Seed())
      ->needs(noise);
}

}  // namespace braid
