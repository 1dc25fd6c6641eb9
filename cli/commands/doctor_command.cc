// doctor: what this machine lacks, or does badly, before a user finds out
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "cli/blas_core.h"
#include "cli/commands/command.h"
#include "cli/executable_path.h"
#include "cli/tables.h"
#include "formats/atomic_file.h"

namespace braid {
namespace {

struct Finding {
  bool good;
  std::string what, found, hint;
};

std::string OnPath(const std::string& program) {
  const char* const path = std::getenv("PATH");
  for (const std::string& folder :
       std::vector<std::string>(absl::StrSplit(path == nullptr ? "" : path, ':'))) {
    const std::string file = folder + "/" + program;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

Finding CheckProgram(const std::string& name, const std::string& hint) {
  const std::string found = OnPath(name);
  return {!found.empty(), name, found.empty() ? "not found" : found, hint};
}

Finding CheckTrainer() {
  const std::filesystem::path trainer = SiblingProgram("braid-trainer");
  const bool good = access(trainer.c_str(), X_OK) == 0;
  return {good, "braid-trainer", good ? trainer.string() : "not beside braid", "build it"};
}

Finding CheckBlas() {
  const std::string core = BlasCoreName();
  return {core != "Prescott", "OpenBLAS core", core.empty() ? "not OpenBLAS" : core,
          "set OPENBLAS_CORETYPE to this processor's kind (Haswell, SkylakeX, Zen)"};
}

Finding CheckHome(const std::filesystem::path& home) {
  const absl::Status made = MakeDirectories(home);
  const std::filesystem::path probe = home / "doctor.probe";
  const absl::Status written = made.ok() ? WriteFileAtomically(probe, "ok") : made;
  std::error_code error;
  std::filesystem::remove(probe, error);
  const auto space = std::filesystem::space(home, error);
  const double free_gib = error ? 0 : static_cast<double>(space.available) / (1 << 30);
  return {written.ok() && free_gib > 1, "home " + home.string(),
          written.ok() ? absl::StrFormat("writable, %.1f GiB free", free_gib)
                       : std::string(written.message()),
          "choose another with --home"};
}

absl::Status Doctor(Session& session) {
  const std::vector<Finding> findings = {CheckProgram("mpirun", "apt-get install openmpi-bin"),
                                         CheckTrainer(), CheckBlas(),
                                         CheckHome(session.options.home)};
  bool all_good = true;
  for (const Finding& finding : findings) {
    all_good = all_good && finding.good;
    std::cout << (finding.good ? "ok    " : "BAD   ") << finding.what << ": " << finding.found
              << (finding.good ? "" : "; " + finding.hint) << "\n";
  }
  std::cout << "ok    cores: " << std::thread::hardware_concurrency() << std::endl;
  return all_good ? absl::OkStatus()
                  : absl::FailedPreconditionError("this machine is not ready; see BAD above");
}

}  // namespace

void AddDoctorCommand(Program& program) {
  CLI::App* command = program.app.add_subcommand("doctor", "Check that this machine is ready");
  command->callback(
      [&program] { program.action = [&program] { return Doctor(program.session); }; });
}

}  // namespace braid
