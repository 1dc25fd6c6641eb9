#include "cli/rank_checks.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "control/launch/launcher.h"
#include "control/supervision/attempt_process.h"
#include "control/supervision/subprocess.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

// Heartbeats, events and checkpoints are compared across hosts by their clocks.
constexpr double kClockSeconds = 1;
// Network file systems may show a new directory entry only after some seconds.
constexpr double kSlowVisibilitySeconds = 1;
// mpirun waits indefinitely for unreachable hosts.
constexpr auto kPatience = std::chrono::minutes(2);

std::string Names(const std::set<std::string>& names) { return absl::StrJoin(names, ", "); }

Finding JudgeStart(const std::vector<RankFindings>& ranks) {
  std::map<std::string, int> hosts;
  for (const RankFindings& rank : ranks) ++hosts[rank.host];
  return {Grade::kGood, "ranks",
          absl::StrCat(ranks.size(), " started and connected: ",
                       absl::StrJoin(hosts, ", ",
                                     [](std::string* out, const auto& host) {
                                       absl::StrAppend(out, host.second, " on ", host.first);
                                     })),
          ""};
}

// Compares the threads on every host with its cores, and each rank's binding with its threads.
Finding JudgeCores(const std::vector<RankFindings>& ranks, int threads_per_rank) {
  std::map<std::string, int> wanted, cores;
  std::set<std::string> bound;
  for (const RankFindings& rank : ranks) {
    wanted[rank.host] += threads_per_rank;
    cores[rank.host] = rank.host_cores;
    if (rank.allowed_cores < threads_per_rank) bound.insert(absl::StrCat("rank ", rank.rank));
  }
  std::set<std::string> crowded;
  for (const auto& [host, threads] : wanted) {
    if (threads > cores[host]) {
      crowded.insert(absl::StrCat(host, ": ", Counted(threads, "thread"), " on ",
                                  Counted(cores[host], "core")));
    }
  }
  if (!bound.empty()) {
    return {Grade::kBad, "binding",
            absl::StrCat(Names(bound),
                         " may use fewer cores than threads_per_rank = ", threads_per_rank),
            "unset the binding policy (OMPI_MCA_hwloc_base_binding_policy), or use fewer threads"};
  }
  return {crowded.empty() ? Grade::kGood : Grade::kWarning, "cores",
          crowded.empty()
              ? absl::StrCat("enough for ", Counted(threads_per_rank, "thread"), " per rank")
              : Names(crowded),
          "use fewer ranks or threads: more threads than cores slow each other down"};
}

Finding JudgeBlas(const std::vector<RankFindings>& ranks) {
  std::set<std::string> names, slow;
  for (const RankFindings& rank : ranks) {
    names.insert(rank.blas_core.empty() ? "not OpenBLAS" : rank.blas_core);
    if (!rank.better_blas_core.empty()) {
      slow.insert(absl::StrCat("OPENBLAS_CORETYPE=", rank.better_blas_core, " on ", rank.host));
    }
  }
  const bool differ = names.size() > 1;
  return {!slow.empty() ? Grade::kBad
          : differ      ? Grade::kWarning
                        : Grade::kGood,
          "BLAS kernels", Names(names),
          !slow.empty()
              ? absl::StrCat("the processor has wider vector units: set ", Names(slow),
                             ", or unset OPENBLAS_CORETYPE")
              : "hosts differ: results are not bit-identical when ranks move between hosts"};
}

Finding JudgeOpenMp(const std::vector<RankFindings>& ranks) {
  std::set<std::string> runtimes, several;
  for (const RankFindings& rank : ranks) {
    runtimes.insert(rank.openmp_runtimes.begin(), rank.openmp_runtimes.end());
    if (rank.openmp_runtimes.size() > 1) several.insert(rank.host);
  }
  return {
      several.empty() ? Grade::kGood : Grade::kBad, "OpenMP runtimes", Names(runtimes),
      absl::StrCat("more than one in a process on ", Names(several),
                   ": threads contend or deadlock; link LibTorch and BLAS with the same runtime")};
}

Finding JudgeClocks(const std::vector<RankFindings>& ranks) {
  const RankFindings* worst = &ranks.front();
  for (const RankFindings& rank : ranks) {
    if (std::abs(rank.clock_offset_seconds) > std::abs(worst->clock_offset_seconds)) worst = &rank;
  }
  const double offset = worst->clock_offset_seconds;
  return {std::abs(offset) < kClockSeconds ? Grade::kGood : Grade::kBad, "clocks",
          absl::StrFormat("within %.3f s of rank 0%s", std::abs(offset),
                          std::abs(offset) < kClockSeconds ? "" : ", furthest on " + worst->host),
          "run chrony or ntpd on every host: heartbeats are compared by wall time"};
}

Finding JudgeShared(const std::vector<RankFindings>& ranks) {
  std::set<std::string> blind;
  double slowest = 0, skew = 0;
  for (const RankFindings& rank : ranks) {
    if (rank.visible_after_seconds < 0) blind.insert(rank.host);
    slowest = std::max(slowest, rank.visible_after_seconds);
    skew = std::max(skew, std::abs(rank.file_clock_offset_seconds));
  }
  if (!blind.empty()) {
    return {Grade::kBad, "shared directory",
            absl::StrCat("files of other ranks are not visible on ", Names(blind)),
            "the home and the datasets must be on a file system that all hosts share"};
  }
  const bool good = slowest < kSlowVisibilitySeconds && skew < kClockSeconds;
  return {good ? Grade::kGood : Grade::kWarning, "shared directory",
          absl::StrFormat("all ranks see each other's files after %.3f s; file times %.3f s off",
                          slowest, skew),
          "caused by attribute caching or the file server's clock: mount with actimeo=1 and run "
          "ntpd on "
          "the file server"};
}

// A temporary directory that serves as run directory for mpirun; removed on destruction.
class ProbeDirectory {
 public:
  static absl::StatusOr<ProbeDirectory> Make(const std::filesystem::path& shared) {
    const std::filesystem::path path = shared / absl::StrCat("doctor-", NewNonce());
    RETURN_IF_ERROR(MakeDirectories(path));
    return ProbeDirectory(path);
  }
  ProbeDirectory(ProbeDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~ProbeDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ProbeDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// Returns the command of a run with "check-rank" instead of "train".
SubprocessSpec CheckCommand(MpirunCommand command) {
  *std::find(command.arguments.rbegin(), command.arguments.rend(), "train") = "check-rank";
  command.variables["BRAID_RUN_NONCE"] = "doctor";
  SubprocessSpec check{.arguments = command.arguments};
  for (const auto& [name, value] : command.variables) {
    check.environment.push_back(absl::StrCat(name, "=", value));
  }
  return check;
}

absl::StatusOr<std::vector<RankFindings>> CollectFindings(const SubprocessSpec& check,
                                                          int world_size) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<RankFindings> ranks;
  ASSIGN_OR_RETURN(
      const SubprocessResult result,
      RunSubprocess(
          check,
          [&](std::string_view line) {
            auto findings = ParseRankFindings(std::string(line));
            if (findings.ok()) ranks.push_back(*std::move(findings));
            return true;
          },
          [&] { return Interrupted() || std::chrono::steady_clock::now() - start > kPatience; }));
  if (result.exit_code == 0 && static_cast<int>(ranks.size()) == world_size) return ranks;
  return absl::UnavailableError(absl::StrCat(ranks.size(), " of ", world_size, " ranks reported",
                                             result.killed ? " within two minutes" : "",
                                             "; output of mpirun: ", result.error_output));
}

}  // namespace

absl::StatusOr<std::vector<RankFindings>> CollectRankFindings(const LauncherPrograms& programs,
                                                              const v1::RunSpec& spec,
                                                              const std::filesystem::path& shared) {
  ASSIGN_OR_RETURN(const LauncherPrograms found, FindLauncherPrograms(programs, spec));
  ASSIGN_OR_RETURN(const MpirunSite site, LocalSite(found, spec));
  ASSIGN_OR_RETURN(const ProbeDirectory probe, ProbeDirectory::Make(shared));
  RETURN_IF_ERROR(WriteFileAtomically(HostfileOf(probe.path()), HostfileText(spec.launch())));
  return CollectFindings(CheckCommand(PlanMpirun(site, probe.path(), spec)), spec.world_size());
}

Findings JudgeRanks(const std::vector<RankFindings>& ranks, int threads_per_rank) {
  if (ranks.empty()) return {};
  return {JudgeStart(ranks),  JudgeCores(ranks, threads_per_rank),
          JudgeBlas(ranks),   JudgeOpenMp(ranks),
          JudgeClocks(ranks), JudgeShared(ranks)};
}

}  // namespace braid
