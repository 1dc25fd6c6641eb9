#include "trainer/control/launcher.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"
#include "trainer/control/child_program.h"
#include "trainer/control/run_process.h"
#include "trainer/control/subprocess.h"
#include "trainer/control/unix_time.h"

namespace braid {
namespace {

// An open file, closed on exec and at the end of its scope.
class Descriptor {
 public:
  static absl::StatusOr<Descriptor> Open(const std::filesystem::path& path, int flags) {
    const int fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (fd >= 0) return Descriptor(fd);
    return absl::FailedPreconditionError(
        absl::StrCat("cannot open ", path.string(), ": ", std::strerror(errno)));
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  explicit Descriptor(int fd) : fd_(fd) {}
  int fd_;
};

void SetVariable(const std::string& name, const std::string& value,
                 std::vector<std::string>* environment) {
  const std::string start = name + "=";
  std::erase_if(*environment,
                [&](const std::string& variable) { return absl::StartsWith(variable, start); });
  environment->push_back(start + value);
}

// Waits for the child so that it does not stay a zombie for as long as we live;
// without a SIGCHLD handler, which would belong to the whole program.
void ReapInBackground(pid_t pid) {
  std::thread([pid] {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }).detach();
}

std::string RandomNonce() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

absl::StatusOr<ProcessRecord> Start(const LaunchPlan& plan, const RunDirectory& run) {
  ASSIGN_OR_RETURN(const Descriptor log,
                   Descriptor::Open(run.log(), O_WRONLY | O_CREAT | O_APPEND));
  ASSIGN_OR_RETURN(ChildProgram child, ChildProgram::Fork({.program = plan.arguments.front(),
                                                           .arguments = plan.arguments,
                                                           .environment = plan.environment,
                                                           .directory = run.root().string(),
                                                           .standard_output = log.fd(),
                                                           .standard_error = log.fd(),
                                                           .new_session = true}));
  ProcessRecord record;
  record.nonce = RandomNonce();
  record.launched_at = UnixTime();
  ASSIGN_OR_RETURN(record.identity, IdentifyProcess(child.pid()));
  RETURN_IF_ERROR(WriteProcessRecord(run.process(), record));
  // Not before: whoever looks meanwhile sees the end of the earlier attempt.
  RETURN_IF_ERROR(run.RemoveExit());
  RETURN_IF_ERROR(child.Execute());
  ReapInBackground(child.pid());
  return record;
}

}  // namespace

absl::StatusOr<LauncherPrograms> FindLauncherPrograms(const LauncherPrograms& programs) {
  LauncherPrograms found;
  ASSIGN_OR_RETURN(found.mpirun, RequireProgram(programs.mpirun,
                                                "install Open MPI (apt-get install openmpi-bin)"));
  ASSIGN_OR_RETURN(
      found.trainer,
      RequireProgram(programs.trainer, "build it (ninja braid-trainer) beside the braid program"));
  return found;
}

LaunchPlan PlanLaunch(const LauncherPrograms& programs, const std::filesystem::path& run_dir,
                      const v1::RunSpec& spec, const std::vector<std::string>& environment,
                      bool as_root) {
  LaunchPlan plan;
  // Ranks of one machine share its cores by threads_per_rank, not by binding; and
  // more ranks than cores is the user's decision, not Open MPI's.
  plan.arguments = {programs.mpirun,
                    "--bind-to",
                    "none",
                    "--map-by",
                    ":OVERSUBSCRIBE",
                    "-n",
                    absl::StrCat(spec.world_size()),
                    programs.trainer,
                    "train",
                    run_dir.string()};
  plan.environment = environment;
  SetVariable("OMP_NUM_THREADS", absl::StrCat(spec.threads_per_rank()), &plan.environment);
  // Threads that spin between parallel regions cost a third of the speed.
  SetVariable("OMP_WAIT_POLICY", "PASSIVE", &plan.environment);
  // Containers forbid the system call; Open MPI then complains at length.
  SetVariable("OMPI_MCA_btl_vader_single_copy_mechanism", "none", &plan.environment);
  if (as_root) {
    SetVariable("OMPI_ALLOW_RUN_AS_ROOT", "1", &plan.environment);
    SetVariable("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", &plan.environment);
  }
  return plan;
}

absl::StatusOr<ProcessRecord> LaunchTrainer(const LauncherPrograms& programs,
                                            const RunDirectory& run) {
  ASSIGN_OR_RETURN(const LauncherPrograms found, FindLauncherPrograms(programs));
  ASSIGN_OR_RETURN(const v1::RunSpec spec, run.ReadSpec());
  // Two programs that resume the same run take turns; the second finds it alive.
  ASSIGN_OR_RETURN(const Descriptor lock,
                   Descriptor::Open(run.root() / "launch.lock", O_RDWR | O_CREAT));
  while (flock(lock.fd(), LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    return absl::UnavailableError(
        absl::StrCat("cannot lock ", run.root().string(), ": ", std::strerror(errno)));
  }
  if (HasLiveProcess(run, UnixTime())) {
    return absl::FailedPreconditionError(
        absl::StrCat(run.root().string(), " has a trainer running already"));
  }
  return Start(PlanLaunch(found, run.root(), spec, TrainerEnvironment(), geteuid() == 0), run);
}

}  // namespace braid
