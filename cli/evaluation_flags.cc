#include "cli/evaluation_flags.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cli/arguments.h"
#include "formats/manifest.h"
#include "runs/run_directory.h"

namespace braid {
namespace {

// Returns the file that marks a directory above `path` as one of braid's; nullopt if none does.
std::optional<std::filesystem::path> MarkerAbove(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path directory = std::filesystem::absolute(path, error).parent_path();
  // The directories that links and ".." lead to count, not those that they pass through.
  if (!error) directory = std::filesystem::weakly_canonical(directory, error);
  for (; !error && directory.has_relative_path(); directory = directory.parent_path()) {
    std::error_code missing;
    const std::filesystem::path spec = RunDirectory(directory).spec();
    if (std::filesystem::exists(spec, missing)) return spec;
    // Web pages and packages of other programs have files of this name too.
    if (Manifest::IsIn(directory)) return directory / kManifestName;
  }
  return std::nullopt;
}

}  // namespace

CLI::Validator OutsideOfRecords() {
  return CLI::Validator(
      [](std::string& text) {
        const std::filesystem::path path = text;
        const std::string extension = absl::AsciiStrToLower(path.extension().string());
        if (extension == ".html" || extension == ".csv" || text == "-") return std::string();
        const std::optional<std::filesystem::path> marker = MarkerAbove(path);
        if (!marker.has_value()) return std::string();
        return absl::StrCat("got ", text, ", which is in the directory of ",
                            marker->filename().string(),
                            ", expected another directory or a name that ends in .html or .csv");
      },
      "");
}

CLI::Validator NotStandardOutput() {
  return CLI::Validator(
      [](std::string& text) {
        return text == "-" ? "got \"-\", expected a file: pages are not written to standard output"
                           : std::string();
      },
      "");
}

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
  command->add_option("-o,--output", *path, "Write an HTML page with charts to this file")
      ->check(NotEmpty("a file"))
      ->check(NotStandardOutput())
      ->check(OutsideOfRecords());
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
  command->add_option("--noise-seed", flags->seed, "Seed of the embedding noise (default: 0)")
      ->check(Seed())
      ->needs(noise);
}

}  // namespace braid
