#include "control/launch/launcher.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "control/launch/kubernetes_manifest.h"
#include "control/launch/scheduled_run.h"
#include "control/launch/slurm_script.h"
#include "control/supervision/attempt_process.h"
#include "control/supervision/child_program.h"
#include "control/supervision/run_process.h"
#include "control/supervision/subprocess.h"
#include "control/supervision/supervisor_process.h"
#include "runs/launch_config.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

bool IsLocalHost(const std::string& host) {
  return host == "localhost" || host == "127.0.0.1" || host == HostName();
}

bool NeedsRemoteAgent(const v1::RunSpec& spec) {
  for (const v1::HostSlots& host : spec.launch().hosts()) {
    if (!IsLocalHost(host.host())) return true;
  }
  return false;
}

absl::StatusOr<std::string> FindRemoteAgent(const std::string& agent) {
  if (agent.empty()) {
    // Open MPI would look it up itself, with a less helpful error when it is missing.
    RETURN_IF_ERROR(
        RequireProgram("ssh", "install openssh-client, or name another with --remote-agent")
            .status());
    return std::string();
  }
  ASSIGN_OR_RETURN(std::string found, RequireProgram(agent, "see --remote-agent"));
  // Open MPI splits the value at spaces.
  RETURN_IF_ERROR(CheckPlainPath("--remote-agent", found));
  return found;
}

// The paths in the image, which differ from those on this machine.
LauncherPrograms ImagePrograms() {
  return {.mpirun = std::string(kImageMpirun),
          .trainer = std::string(kImageTrainer),
          .supervisor = std::string(kImageSupervisor)};
}

absl::Status PlanSubmission(const LauncherPrograms& programs, const fs::path& run_dir,
                            const v1::RunSpec& spec, const std::string& job_name,
                            LaunchPlan* plan) {
  if (spec.launch().backend() == v1::SLURM) {
    plan->submission = run_dir / "launch.sbatch";
    plan->start = {"sbatch", "--parsable", plan->submission.string()};
    ASSIGN_OR_RETURN(plan->submission_text,
                     SlurmScript(spec, programs.supervisor, run_dir, job_name));
    return absl::OkStatus();
  }
  plan->submission = run_dir / "launch.mpijob.json";
  plan->start = {"kubectl", "apply", absl::StrCat("--filename=", plan->submission.string())};
  const MpiJobNames names{.job = job_name,
                          .run_id = run_dir.filename().string(),
                          .nonce = job_name.substr(job_name.rfind('-') + 1)};
  ASSIGN_OR_RETURN(plan->submission_text, MpiJobManifest(spec, run_dir, names));
  return absl::OkStatus();
}

absl::Status WritePlan(const RunDirectory& run, const LaunchPlan& plan) {
  if (!plan.hostfile.empty()) {
    RETURN_IF_ERROR(WriteFileAtomically(HostfileOf(run.root()), plan.hostfile));
  }
  if (!plan.submission.empty()) {
    RETURN_IF_ERROR(WriteFileAtomically(plan.submission, plan.submission_text));
  }
  // Last: EnsureSupervised starts supervisors only for runs with a launch.json.
  return WriteFileAtomically(run.launch(), LaunchJson(plan.mpirun, plan.hostfile));
}

// Records the supervisor before it runs. If this process dies in between, the waiting child exits
// and the record remains, from which EnsureSupervised learns that the launch needs a supervisor.
absl::Status StartSupervisor(const std::string& supervisor, const RunDirectory& run) {
  ASSIGN_OR_RETURN(ChildProgram child, ForkSupervisor(supervisor, run));
  ProcessRecord record;
  record.nonce = NewNonce();
  record.launched_at = UnixTime();
  // Process id and start time stay the same when the child executes the supervisor, which finds
  // itself in this record (Supervisor::Claim).
  ASSIGN_OR_RETURN(record.identity, IdentifyProcess(child.pid()));
  RETURN_IF_ERROR(WriteProcessRecord(run.process(), record));
  return ExecuteSupervisor(child);
}

absl::Status AliveAlready(const RunDirectory& run) {
  return absl::FailedPreconditionError(
      absl::StrCat(run.root().string(), " is already running; stop it first with: braid stop ",
                   run.root().filename().string()));
}

}  // namespace

absl::StatusOr<LauncherPrograms> FindLauncherPrograms(const LauncherPrograms& programs,
                                                      const v1::RunSpec& spec) {
  const v1::LaunchBackend backend = spec.launch().backend();
  if (const Scheduler* scheduler = SchedulerOf(backend)) RETURN_IF_ERROR(scheduler->Check());
  if (backend == v1::KUBERNETES) return ImagePrograms();
  LauncherPrograms found;
  ASSIGN_OR_RETURN(found.mpirun, RequireProgram(programs.mpirun,
                                                "install Open MPI (apt-get install openmpi-bin)"));
  ASSIGN_OR_RETURN(
      found.trainer,
      RequireProgram(programs.trainer, "build it (ninja braid-trainer) beside the braid program"));
  ASSIGN_OR_RETURN(found.supervisor,
                   RequireProgram(programs.supervisor,
                                  "build it (ninja braid-supervisor) beside the braid program"));
  if (backend == v1::HOSTFILE && NeedsRemoteAgent(spec)) {
    ASSIGN_OR_RETURN(found.remote_agent, FindRemoteAgent(programs.remote_agent));
  }
  return found;
}

absl::StatusOr<LaunchPlan> PlanLaunch(const LauncherPrograms& programs, const MpirunSite& site,
                                      const fs::path& run_dir, const v1::RunSpec& spec,
                                      const std::string& job_name) {
  const v1::LaunchBackend backend = spec.launch().backend();
  LaunchPlan plan;
  plan.mpirun = PlanMpirun(site, run_dir, spec);
  plan.start = {programs.supervisor, run_dir.string()};
  if (backend != v1::LOCAL) {
    // A scheduler, or a login shell on another host, interprets special characters in these paths.
    RETURN_IF_ERROR(CheckPlainPath("run directory", run_dir.string()));
    RETURN_IF_ERROR(CheckPlainPath("braid-trainer's path", site.trainer));
  }
  if (backend == v1::HOSTFILE) plan.hostfile = HostfileText(spec.launch());
  if (backend == v1::SLURM || backend == v1::KUBERNETES) {
    RETURN_IF_ERROR(PlanSubmission(programs, run_dir, spec, job_name, &plan));
  }
  return plan;
}

absl::Status CheckLaunch(const LauncherPrograms& programs, const fs::path& home,
                         const v1::RunSpec& spec) {
  ASSIGN_OR_RETURN(const LauncherPrograms found, FindLauncherPrograms(programs, spec));
  const MpirunSite site{
      .mpirun = found.mpirun, .trainer = found.trainer, .remote_agent = "", .environment = {}};
  // Placeholders with the length of real ids and nonces.
  const fs::path run_dir = fs::absolute(home).lexically_normal() / "runs/run-000000";
  return PlanLaunch(found, site, run_dir, spec, JobName(run_dir, NewNonce())).status();
}

absl::StatusOr<MpirunSite> LocalSite(const LauncherPrograms& programs, const v1::RunSpec& spec) {
  MpirunSite site{.mpirun = programs.mpirun,
                  .trainer = programs.trainer,
                  .remote_agent = programs.remote_agent,
                  .environment = TrainerEnvironment(),
                  .as_root = geteuid() == 0};
  // The arguments for other backends are the same for both series.
  if (spec.launch().backend() == v1::HOSTFILE || spec.launch().backend() == v1::SLURM) {
    ASSIGN_OR_RETURN(site.series, DetectOpenMpi(programs.mpirun));
  }
  return site;
}

std::string JobName(const fs::path& run_dir, const std::string& nonce) {
  return absl::StrCat("braid-", run_dir.filename().string(), "-", nonce);
}

absl::Status StartLockedRun(const LauncherPrograms& programs, const RunDirectory& run) {
  // Each attempt reads the spec again; the seal makes a change between two of them an error.
  RETURN_IF_ERROR(run.SealSpec());
  ASSIGN_OR_RETURN(const v1::RunSpec spec, run.ReadSpec());
  ASSIGN_OR_RETURN(const LauncherPrograms found, FindLauncherPrograms(programs, spec));
  ASSIGN_OR_RETURN(const MpirunSite site, LocalSite(found, spec));
  // Before WritePlan: the supervisor of a live run reads launch.json again at a restart.
  if (HasLiveProcess(run, UnixTime())) return AliveAlready(run);
  Scheduler* const scheduler = SchedulerOf(spec.launch().backend());
  SchedulerRecord record;
  if (scheduler != nullptr) {
    ASSIGN_OR_RETURN(record, NextSubmission(*scheduler, run, spec));
  }
  ASSIGN_OR_RETURN(const LaunchPlan plan,
                   PlanLaunch(found, site, run.root(), spec, record.job_name));
  RETURN_IF_ERROR(WritePlan(run, plan));
  if (scheduler != nullptr) return SubmitRun(*scheduler, run, plan.submission, record);
  // Up to here readers see the end of the earlier attempt.
  RETURN_IF_ERROR(run.RemoveExit());
  return StartSupervisor(found.supervisor, run);
}

bool WasStarted(const RunDirectory& run) {
  if (ReadProcessRecord(run.process()).ok()) return true;
  const std::optional<SchedulerRecord> record = ReadSchedulerRecord(run);
  return record.has_value() && !record->job.empty();
}

}  // namespace braid
