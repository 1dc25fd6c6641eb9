#include "trainer/rank_check.h"

#include <omp.h>
#include <sched.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/blas_core.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "runs/process_identity.h"

namespace braid {

namespace {

constexpr int kClockSamples = 11;
constexpr auto kLook = std::chrono::milliseconds(5);

using Clock = std::chrono::steady_clock;

int64_t WallNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int AllowedCores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

// Returns the offset of this rank's clock from the leader's. The ranks read their clocks as they
// leave a barrier together; the sample nearest to zero was disturbed least.
absl::StatusOr<double> ClockOffset(Communicator& ranks) {
  double best = 0;
  for (int sample = 0; sample < kClockSamples; ++sample) {
    RETURN_IF_ERROR(ranks.Barrier());
    const int64_t mine = WallNanoseconds();
    ASSIGN_OR_RETURN(const std::vector<uint64_t> clocks,
                     GatherNumbers(ranks, static_cast<uint64_t>(mine)));
    const double offset = 1e-9 * static_cast<double>(mine - static_cast<int64_t>(clocks[0]));
    if (sample == 0 || std::abs(offset) < std::abs(best)) best = offset;
  }
  return best;
}

std::string FileOf(int rank) { return absl::StrCat("rank-", rank); }

// Returns the seconds until the files of all ranks are visible; negative when one does not appear.
double SecondsUntilVisible(const std::filesystem::path& folder, int world_size) {
  const Clock::time_point start = Clock::now();
  for (int rank = 0; rank < world_size; ++rank) {
    while (ReadFile(folder / FileOf(rank)).value_or("") != FileOf(rank)) {
      if (SecondsSince(start) > kVisibilitySeconds) return -1;
      std::this_thread::sleep_for(kLook);
    }
  }
  return SecondsSince(start);
}

// On a network file system the server stamps files, and its clock may differ from this host's.
double FileClockOffset(const std::filesystem::path& file, int64_t written_at) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0) return 0;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * status.st_mtim.tv_nsec -
         1e-9 * static_cast<double>(written_at);
}

absl::StatusOr<std::filesystem::path> ProbeFolder(Communicator& ranks,
                                                  const std::filesystem::path& shared) {
  ASSIGN_OR_RETURN(const std::string name,
                   BroadcastText(ranks, absl::StrCat("doctor-", RandomId(16)), 0));
  return shared / name;
}

absl::Status WriteProbe(const std::filesystem::path& folder, int rank) {
  std::error_code error;
  // Parent directories are not created: they should exist.
  std::filesystem::create_directory(folder, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(HostName(), " cannot create ", folder.string(), ": ",
                                               error.message(),
                                               "; mount the directory on this host"));
  }
  return WriteFileAtomically(folder / FileOf(rank), FileOf(rank));
}

absl::Status CheckShared(Communicator& ranks, const std::filesystem::path& shared,
                         RankFindings* findings) {
  ASSIGN_OR_RETURN(const std::filesystem::path folder, ProbeFolder(ranks, shared));
  const std::filesystem::path mine = folder / FileOf(ranks.rank());
  const int64_t now = WallNanoseconds();
  const absl::Status written = WriteProbe(folder, ranks.rank());
  // Ends the check on all ranks if one cannot write: the others would wait for its file in vain.
  RETURN_IF_ERROR(AgreeOnStatus(ranks, written));
  findings->file_clock_offset_seconds = FileClockOffset(mine, now);
  findings->visible_after_seconds = SecondsUntilVisible(folder, ranks.world_size());
  // No rank removes its file before all have looked for it.
  RETURN_IF_ERROR(ranks.Barrier());
  std::error_code ignored;
  std::filesystem::remove(mine, ignored);
  RETURN_IF_ERROR(ranks.Barrier());
  // All files are gone after the barrier. The first of the ranks that share the directory removes
  // it; ranks that do not share it each remove their own.
  std::filesystem::remove(folder, ignored);
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> OpenMpRuntimes(const std::string& maps) {
  std::set<std::string> runtimes;
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::string path = line.substr(slash);
    const std::string file = path.substr(path.rfind('/') + 1);
    for (const char* name : {"libgomp", "libomp", "libiomp"}) {
      if (file.starts_with(name)) runtimes.insert(path);
    }
  }
  return {runtimes.begin(), runtimes.end()};
}

absl::StatusOr<RankFindings> CheckRank(Communicator& ranks, const std::filesystem::path& shared) {
  RankFindings findings{.rank = ranks.rank(),
                        .world_size = ranks.world_size(),
                        .host = HostName(),
                        .allowed_cores = AllowedCores(),
                        .host_cores = static_cast<int>(std::thread::hardware_concurrency()),
                        .threads = omp_get_max_threads(),
                        .blas_core = BlasCoreName()};
  findings.better_blas_core =
      BetterBlasCore(findings.blas_core, ProcessorVectorUnits()).value_or("");
  findings.openmp_runtimes = OpenMpRuntimes(ReadFile("/proc/self/maps").value_or(""));
  ASSIGN_OR_RETURN(findings.clock_offset_seconds, ClockOffset(ranks));
  if (!shared.empty()) RETURN_IF_ERROR(CheckShared(ranks, shared, &findings));
  return findings;
}

}  // namespace braid
