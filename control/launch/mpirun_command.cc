#include "control/launch/mpirun_command.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "control/supervision/attempt_process.h"
#include "control/supervision/subprocess.h"
#include "runs/run_directory.h"

namespace braid {
namespace {

constexpr std::chrono::seconds kVersionTimeout(20);
// The MPIJob operator mounts it in the launcher pod.
constexpr char kMpiJobHostfile[] = "/etc/mpi/hostfile";

using Variables = std::map<std::string, std::string>;

bool StartsWithAny(const std::string& name, std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char* prefix) { return absl::StartsWith(name, prefix); });
}

// Returns true for settings that hold only on the machine of the service.
bool BelongsToThisMachine(const std::string& name, const Variables& variables) {
  // The BLAS core that the service selected for its own processor, unless the user set it.
  if (variables.contains("BRAID_BLAS_CHOSEN") &&
      (name == "BRAID_BLAS_CHOSEN" || name == "OPENBLAS_CORETYPE")) {
    return true;
  }
  return StartsWithAny(
      name, {"SLURM_", "HOSTNAME", "TERM", "CUDA_VISIBLE_DEVICES", "NVIDIA_", "K_MPI_JOB_ROLE"});
}

// Returns whether -x passes the variable to remote ranks. mpirun passes OMPI_* by itself; the rest
// of the environment is that of the remote login.
bool IsForwarded(const std::string& name) {
  return !StartsWithAny(name, {"OMPI_", "PRTE_", "PMIX_", "SLURM_", "PATH", "HOME", "USER",
                               "LOGNAME", "TMPDIR", "TERM", "SHELL", "HOSTNAME"});
}

Variables VariablesOf(const std::vector<std::string>& environment) {
  Variables variables;
  for (const std::string& variable : environment) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    variables[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  return variables;
}

Variables PlanVariables(const MpirunSite& site, const v1::RunSpec& spec) {
  const v1::LaunchBackend backend = spec.launch().backend();
  Variables variables;
  // A pod uses the environment of its image.
  if (backend != v1::KUBERNETES) variables = VariablesOf(site.environment);
  if (backend != v1::LOCAL) {
    const Variables all = variables;
    std::erase_if(variables,
                  [&](const auto& entry) { return BelongsToThisMachine(entry.first, all); });
  }
  variables["OMP_NUM_THREADS"] = absl::StrCat(spec.threads_per_rank());
  // Threads that spin between parallel regions cost a third of the speed.
  variables["OMP_WAIT_POLICY"] = "PASSIVE";
  // Containers forbid the system call, and Open MPI prints long warnings then.
  variables["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none";
  // mpirun refuses to run as root unless both are set.
  if (site.as_root || backend == v1::KUBERNETES) {
    variables["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    variables["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  return variables;
}

void Append(std::initializer_list<std::string> more, std::vector<std::string>* arguments) {
  arguments->insert(arguments->end(), more);
}

// By default mpirun binds one or two ranks to a core each, with all their threads. Only Slurm
// assigns cores to a run (--cpus-per-task): there each rank is bound to its cores. Elsewhere
// another run on the machine would be bound to the same cores, so ranks are not bound, and there
// may be more ranks than cores.
void AddBinding(const v1::RunSpec& spec, std::vector<std::string>* arguments) {
  if (spec.launch().backend() == v1::SLURM) {
    Append({"--map-by", absl::StrCat("slot:PE=", spec.threads_per_rank())}, arguments);
    return;
  }
  Append({"--bind-to", "none"}, arguments);
  if (spec.launch().backend() == v1::LOCAL) Append({"--map-by", ":OVERSUBSCRIBE"}, arguments);
}

// Full host names are kept, so that hosts of different domains stay distinct. Messages use TCP
// between hosts and shared memory within one.
void AddHosts(const MpirunSite& site, const std::filesystem::path& run_dir,
              std::vector<std::string>* arguments) {
  Append({"--hostfile", HostfileOf(run_dir).string()}, arguments);
  const bool old = site.series == OpenMpiSeries::k4;
  const std::string option = old ? "--mca" : "--prtemca";
  Append({option, old ? "orte_keep_fqdn_hostnames" : "prte_keep_fqdn_hostnames", "1"}, arguments);
  if (!site.remote_agent.empty()) {
    Append({option, old ? "plm_rsh_agent" : "plm_ssh_agent", site.remote_agent}, arguments);
  }
  Append({"--mca", "btl", old ? "tcp,self,vader" : "tcp,self,sm"}, arguments);
}

// Messages between ranks and connections of the launcher have separate parameters.
void AddInterface(const MpirunSite& site, const std::string& interface,
                  std::vector<std::string>* arguments) {
  if (interface.empty()) return;
  Append({"--mca", "btl_tcp_if_include", interface}, arguments);
  if (site.series == OpenMpiSeries::k4) {
    Append({"--mca", "oob_tcp_if_include", interface}, arguments);
  } else {
    Append({"--prtemca", "prte_if_include", interface}, arguments);
  }
}

// By name only, because all users of the machine can see the arguments of a process.
void AddForwarded(const v1::RunSpec& spec, const Variables& variables,
                  std::vector<std::string>* arguments) {
  if (spec.launch().backend() != v1::LOCAL) {
    for (const auto& [name, value] : variables) {
      if (name != kNonceVariable && IsForwarded(name)) Append({"-x", name}, arguments);
    }
  }
  Append({"-x", kNonceVariable}, arguments);
}

}  // namespace

absl::StatusOr<OpenMpiSeries> ParseOpenMpiVersion(std::string_view output) {
  constexpr std::string_view kMarker = "(Open MPI) ";
  const size_t found = output.find(kMarker);
  int series = 0;
  if (found != std::string_view::npos) {
    const std::string_view version = output.substr(found + kMarker.size());
    if (!absl::SimpleAtoi(std::string(version.substr(0, version.find('.'))), &series)) series = 0;
  }
  if (series == 4) return OpenMpiSeries::k4;
  if (series >= 5) return OpenMpiSeries::k5;
  return absl::FailedPreconditionError(
      absl::StrCat("mpirun --version: got \"", std::string(output.substr(0, 60)),
                   "\", expected mpirun (Open MPI) 4 or later; install openmpi-bin"));
}

absl::StatusOr<OpenMpiSeries> DetectOpenMpi(const std::string& mpirun) {
  const auto deadline = std::chrono::steady_clock::now() + kVersionTimeout;
  std::string output;
  const auto keep = [&](std::string_view line) {
    if (output.size() < 4096) output.append(line).append("\n");
    return true;
  };
  ASSIGN_OR_RETURN(
      const SubprocessResult result,
      RunSubprocess({.arguments = {mpirun, "--version"}, .environment = TrainerEnvironment()}, keep,
                    [&] { return std::chrono::steady_clock::now() > deadline; }));
  if (result.killed) {
    return absl::FailedPreconditionError(
        absl::StrCat(mpirun, " --version: got no answer within ", kVersionTimeout.count(),
                     " s; run it by hand and repair the installation"));
  }
  return ParseOpenMpiVersion(output);
}

MpirunCommand PlanMpirun(const MpirunSite& site, const std::filesystem::path& run_dir,
                         const v1::RunSpec& spec) {
  MpirunCommand command;
  command.variables = PlanVariables(site, spec);
  std::vector<std::string> arguments(1, site.mpirun);
  AddBinding(spec, &arguments);
  Append({"-n", absl::StrCat(spec.world_size())}, &arguments);
  if (spec.launch().backend() == v1::HOSTFILE) AddHosts(site, run_dir, &arguments);
  if (spec.launch().backend() == v1::KUBERNETES)
    Append({"--hostfile", kMpiJobHostfile}, &arguments);
  AddInterface(site, spec.launch().network_interface(), &arguments);
  AddForwarded(spec, command.variables, &arguments);
  Append({site.trainer, "train", run_dir.string()}, &arguments);
  command.arguments = std::move(arguments);
  return command;
}

std::string HostfileText(const v1::LaunchConfig& launch) {
  std::string text;
  for (const v1::HostSlots& host : launch.hosts()) {
    absl::StrAppend(&text, host.host(), " slots=", host.slots(), "\n");
  }
  return text;
}

std::string LaunchJson(const MpirunCommand& command, const std::string& hostfile) {
  nlohmann::json json = {{"arguments", command.arguments}, {"variables", command.variables}};
  if (!hostfile.empty()) json["hostfile"] = hostfile;
  return SealJson(json);
}

}  // namespace braid
