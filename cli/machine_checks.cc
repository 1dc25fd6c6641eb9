#include "cli/machine_checks.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/database_journal.h"
#include "control/supervision/subprocess.h"
#include "rpc/executable_path.h"
#include "server/expiries.h"

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

Finding CheckMpirun(const std::string& mpirun) {
  const std::optional<std::string> path = FindProgram(mpirun);
  if (!path) {
    return {Grade::kBad, "mpirun", mpirun + " not found",
            "apt-get install openmpi-bin, or name another mpirun with --mpirun"};
  }
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

Finding CheckState(const std::filesystem::path& state) {
  const absl::Status made = MakeDirectories(state);
  const auto journal = made.ok() ? ChooseJournal(state) : absl::StatusOr<DatabaseJournal>(made);
  if (!journal.ok()) {
    return {Grade::kBad, "state", std::string(journal.status().message()),
            "choose a directory on a local disk with --state"};
  }
  return {Grade::kGood, "state", absl::StrCat(state.string(), " is on ", journal->reason), ""};
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

Findings CheckExpiries(const std::filesystem::path& home, const TlsFiles& tls) {
  Findings findings;
  for (const Expiry& expiry : ListExpiries(home, tls)) {
    const std::string warning = ExpiryWarning(expiry, std::time(nullptr));
    if (warning.empty()) continue;
    const size_t remedy = warning.find("; ");
    findings.push_back(
        {Grade::kWarning, expiry.kind, warning.substr(0, remedy), warning.substr(remedy + 2)});
  }
  return findings;
}

Findings CheckMachine(const std::filesystem::path& home, const std::filesystem::path& state,
                      const std::string& mpirun) {
  Findings findings = {CheckMpirun(mpirun),
                       CheckSibling("braid-trainer"),
                       CheckSibling("braid-supervisor"),
                       CheckHome(home),
                       CheckState(state.empty() ? home : state),
                       CheckOpenFiles(),
                       CheckSharedMemory()};
  CheckSlurm(findings);
  return findings;
}

}  // namespace braid
