#include "cli/machine_checks.h"

#include <sys/resource.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "control/supervision/subprocess.h"
#include "rpc/executable_path.h"

namespace braid {
namespace {

constexpr double kGiB = 1 << 30;
constexpr int kOpenFiles = 1024;
// Needed by Open MPI: ranks of one machine communicate through files in /dev/shm.
constexpr double kSharedMemoryGiB = 0.25;

// Returns the first line that a program prints, or "" when it fails.
std::string FirstLine(const std::vector<std::string>& arguments) {
  std::string first;
  const auto keep = [&](std::string_view line) {
    if (first.empty()) first = std::string(line);
    return true;
  };
  const absl::StatusOr<SubprocessResult> result = RunSubprocess(
      {.arguments = arguments, .environment = TrainerEnvironment()}, keep, [] { return false; });
  return result.ok() && result->exit_code == 0 ? first : "";
}

Finding CheckMpirun() {
  const std::optional<std::string> path = FindProgram("mpirun");
  if (!path) return {Grade::kBad, "mpirun", "not found", "apt-get install openmpi-bin"};
  const std::string version = FirstLine({*path, "--version"});
  return {version.empty() ? Grade::kBad : Grade::kGood, "mpirun",
          version.empty() ? *path + " does not start" : absl::StrCat(version, ", ", *path),
          "reinstall openmpi-bin"};
}

Finding CheckSibling(const std::string& name) {
  const std::filesystem::path program = SiblingProgram(name);
  const bool there = access(program.c_str(), X_OK) == 0;
  return {there ? Grade::kGood : Grade::kBad, name,
          there ? program.string() : absl::StrCat("not at ", program.string()),
          absl::StrCat("build it: ninja -C build ", name)};
}

void CheckSlurm(Findings& findings) {
  if (!FindProgram("sbatch")) {
    findings.push_back(
        {Grade::kGood, "Slurm", "not installed; needed only for --backend slurm", ""});
    return;
  }
  const std::string partitions = FirstLine({"sinfo", "--noheader", "--format=%P %a %D nodes"});
  findings.push_back({partitions.empty() ? Grade::kWarning : Grade::kGood, "Slurm",
                      partitions.empty()
                          ? "sbatch is installed, but sinfo gets no answer from the controller"
                          : "partition " + partitions,
                      "check slurmctld and SLURM_CONF"});
}

Finding CheckHome(const std::filesystem::path& home) {
  const absl::Status made = MakeDirectories(home);
  const std::filesystem::path probe = home / "doctor.probe";
  const absl::Status written = made.ok() ? WriteFileAtomically(probe, "ok") : made;
  std::error_code error;
  std::filesystem::remove(probe, error);
  if (!written.ok()) {
    return {Grade::kBad, "home", std::string(written.message()),
            "choose another directory with --home"};
  }
  const auto space = std::filesystem::space(home, error);
  const double free_gib = error ? 0 : static_cast<double>(space.available) / kGiB;
  return {free_gib > 1 ? Grade::kGood : Grade::kBad, "home",
          absl::StrFormat("%s is writable, %.1f GiB free", home.string(), free_gib),
          "free disk space, or choose another directory with --home"};
}

Finding CheckOpenFiles() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {limit.rlim_cur >= kOpenFiles ? Grade::kGood : Grade::kWarning, "open files",
          absl::StrCat("limit ", limit.rlim_cur), absl::StrCat("ulimit -n ", kOpenFiles)};
}

Finding CheckSharedMemory() {
  std::error_code error;
  const auto space = std::filesystem::space("/dev/shm", error);
  const double free_gib = error ? 0 : static_cast<double>(space.available) / kGiB;
  return {free_gib > kSharedMemoryGiB ? Grade::kGood : Grade::kWarning, "/dev/shm",
          absl::StrFormat("%.2f GiB free", free_gib),
          "ranks of one machine communicate through it; enlarge it (containers: --shm-size 1g)"};
}

}  // namespace

Findings CheckMachine(const std::filesystem::path& home) {
  Findings findings = {CheckMpirun(),
                       CheckSibling("braid-trainer"),
                       CheckSibling("braid-supervisor"),
                       CheckHome(home),
                       CheckOpenFiles(),
                       CheckSharedMemory()};
  CheckSlurm(findings);
  return findings;
}

}  // namespace braid
