#include "cli/launch_options.h"

#include <functional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "client/terminal/terminal_text.h"
#include "control/launch/launcher.h"
#include "control/launch/scheduler.h"
#include "rpc/executable_path.h"
#include "runs/run_spec.h"

namespace braid {
namespace {

constexpr char kSlurm[] = "Slurm";
constexpr char kKubernetes[] = "Kubernetes (experimental)";
constexpr char kHosts[] = "Several machines";

void AddText(CLI::App* command, const char* name, const char* group, const char* help,
             std::function<void(const std::string&)> set) {
  command->add_option_function<std::string>(name, std::move(set), help)->group(group);
}

void AddCount(CLI::App* command, const char* name, const char* group, const char* help,
              std::function<void(int32_t)> set) {
  command->add_option_function<int32_t>(name, std::move(set), help)
      ->check(PositiveInt32())
      ->group(group);
}

absl::Status Bad(const std::string& what, const std::string& got, const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": got \"", absl::CHexEscape(got), "\", expected ", expected));
}

absl::StatusOr<v1::HostSlots> MakeHost(const std::string& name, const std::string& slots,
                                       const std::string& where) {
  v1::HostSlots host;
  host.set_host(name);
  int32_t count = 0;
  if (!slots.empty()) {
    if (!absl::SimpleAtoi(slots, &count) || count < 1) {
      return Bad(where, slots, "a number of ranks for " + absl::CHexEscape(name));
    }
    host.set_slots(count);
  }
  if (name.empty()) return Bad(where, "", "a host name");
  return host;
}

absl::Status SetHosts(const LaunchOptions& options, v1::LaunchConfig* launch) {
  if (options.hosts.empty() && options.hostfile.empty()) return absl::OkStatus();
  std::vector<v1::HostSlots> hosts;
  if (!options.hosts.empty()) {
    ASSIGN_OR_RETURN(hosts, ParseHostList(options.hosts));
  } else {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(options.hostfile));
    ASSIGN_OR_RETURN(hosts, ParseHostfile(text));
  }
  launch->mutable_hosts()->Assign(hosts.begin(), hosts.end());
  return absl::OkStatus();
}

bool IsSet(const google::protobuf::Message& message) { return message.ByteSizeLong() > 0; }

}  // namespace

void LaunchOptions::AddTo(CLI::App* command) {
  command
      ->add_option("--backend", backend,
                   "Who starts the ranks: local, hostfile, slurm or kubernetes (default: hostfile "
                   "with hosts, else local)")
      ->check(CLI::IsMember({"local", "hostfile", "slurm", "kubernetes"}))
      ->group(kHosts);
  auto* const list =
      command->add_option("--hosts", hosts, "HOST:RANKS,HOST:RANKS,...")->group(kHosts);
  command->add_option("--hostfile", hostfile, "File with lines HOST slots=RANKS")
      ->excludes(list)
      ->group(kHosts);
  command->add_option("--interface", interface, "Network interface of the ranks, such as eth0")
      ->group(kHosts);
  AddSlurm(command);
  AddKubernetes(command);
  command->add_flag("--print-launch", print,
                    "Print what would be written and executed, and start nothing");
}

void LaunchOptions::AddSlurm(CLI::App* command) {
  v1::SlurmConfig* const s = &slurm;
  AddText(command, "--partition", kSlurm, "Partition (the cluster's default)",
          [s](const std::string& value) { s->set_partition(value); });
  AddText(command, "--account", kSlurm, "Account",
          [s](const std::string& value) { s->set_account(value); });
  AddText(command, "--qos", kSlurm, "Quality of service",
          [s](const std::string& value) { s->set_qos(value); });
  AddCount(command, "--nodes", kSlurm, "Nodes (as many as the ranks need)",
           [s](int32_t value) { s->set_nodes(value); });
  AddCount(command, "--gpus-per-node", kSlurm, "GPUs of each node",
           [s](int32_t value) { s->set_gpus_per_node(value); });
  AddCount(command, "--time-limit", kSlurm,
           "Minutes; two before the end the run saves a checkpoint and stops",
           [s](int32_t value) { s->set_time_limit_minutes(value); });
}

void LaunchOptions::AddKubernetes(CLI::App* command) {
  v1::KubernetesConfig* const k = &kubernetes;
  AddText(command, "--namespace", kKubernetes, "Namespace (default)",
          [k](const std::string& value) { k->set_namespace_(value); });
  AddText(command, "--image", kKubernetes, "Container image with braid in it",
          [k](const std::string& value) { k->set_image(value); });
  AddText(command, "--volume-claim", kKubernetes,
          "Persistent volume claim that holds the service's home",
          [k](const std::string& value) { k->set_volume_claim(value); });
  AddText(command, "--mount-path", kKubernetes, "Where the claim is mounted, here and in the pods",
          [k](const std::string& value) { k->set_mount_path(value); });
  AddCount(command, "--workers", kKubernetes, "Worker pods (one for each rank)",
           [k](int32_t value) { k->set_workers(value); });
  AddText(command, "--cpu", kKubernetes, "CPUs of each worker, such as 8",
          [k](const std::string& value) { k->set_cpu(value); });
  AddText(command, "--memory", kKubernetes, "Memory of each worker, such as 32Gi",
          [k](const std::string& value) { k->set_memory(value); });
  AddCount(command, "--gpus", kKubernetes, "GPUs of each worker",
           [k](int32_t value) { k->set_gpus(value); });
}

absl::Status LaunchOptions::Apply(v1::LaunchConfig* launch) const {
  if (!backend.empty()) {
    v1::LaunchBackend parsed = v1::LAUNCH_BACKEND_UNSPECIFIED;
    v1::LaunchBackend_Parse(absl::AsciiStrToUpper(backend), &parsed);
    launch->set_backend(parsed);
  }
  RETURN_IF_ERROR(SetHosts(*this, launch));
  if (!interface.empty()) launch->set_network_interface(interface);
  if (IsSet(slurm)) launch->mutable_slurm()->MergeFrom(slurm);
  if (IsSet(kubernetes)) launch->mutable_kubernetes()->MergeFrom(kubernetes);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::HostSlots>> ParseHostList(const std::string& list) {
  std::vector<v1::HostSlots> hosts;
  for (const std::string& entry : std::vector<std::string>(absl::StrSplit(list, ','))) {
    const size_t colon = entry.find(':');
    const std::string slots = colon == std::string::npos ? "" : entry.substr(colon + 1);
    if (colon != std::string::npos && slots.empty()) {
      return Bad("--hosts", entry, "HOST:RANKS");
    }
    ASSIGN_OR_RETURN(v1::HostSlots host, MakeHost(entry.substr(0, colon), slots, "--hosts"));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

absl::StatusOr<std::vector<v1::HostSlots>> ParseHostfile(const std::string& text) {
  std::vector<v1::HostSlots> hosts;
  int number = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    ++number;
    const std::vector<std::string> words =
        absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const std::string where = absl::StrCat("--hostfile, line ", number);
    const bool known = words.size() == 1 || (words.size() == 2 && words[1].rfind("slots=", 0) == 0);
    if (!known || (words.size() == 2 && words[1].size() == 6)) {
      return Bad(where, line, "HOST slots=RANKS");
    }
    ASSIGN_OR_RETURN(v1::HostSlots host,
                     MakeHost(words[0], words.size() == 2 ? words[1].substr(6) : "", where));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

LauncherPrograms ProgramsOf(const ConnectionOptions& options) {
  return {.mpirun = options.mpirun,
          .trainer = SiblingProgram("braid-trainer").string(),
          .supervisor = SiblingProgram("braid-supervisor").string(),
          .remote_agent = options.remote_agent};
}

absl::Status PrintLaunch(const ConnectionOptions& options, const v1::RunSpec& spec,
                         std::ostream& out) {
  if (!options.server.empty()) {
    return absl::InvalidArgumentError(
        "--print-launch: got --server, expected none: a server plans with its own programs; run "
        "this on its machine");
  }
  ASSIGN_OR_RETURN(const v1::RunSpec resolved, ResolveRunSpec(spec));
  ASSIGN_OR_RETURN(const LauncherPrograms programs,
                   FindLauncherPrograms(ProgramsOf(options), resolved));
  ASSIGN_OR_RETURN(const MpirunSite site, LocalSite(programs, resolved));
  // The id that a launch would give stands in for the next one.
  const std::filesystem::path run_dir =
      std::filesystem::absolute(options.home).lexically_normal() / "runs/run-NNNNNN";
  const std::string job_name = SchedulerOf(resolved.launch().backend()) == nullptr
                                   ? ""
                                   : "braid-run-nnnnnn-0123456789abcdef";
  ASSIGN_OR_RETURN(const LaunchPlan plan, PlanLaunch(programs, site, run_dir, resolved, job_name));
  out << "# executed\n" << ShellText(plan.start) << "\n\n";
  if (!plan.submission.empty()) {
    out << "# " << plan.submission.string() << "\n" << plan.submission_text << "\n";
  }
  if (!plan.hostfile.empty()) {
    out << "# " << HostfileOf(run_dir).string() << "\n" << plan.hostfile << "\n";
  }
  out << "# executed by braid-supervisor\n" << ShellText(plan.mpirun.arguments) << "\n\n";
  out << "# variables of mpirun\n";
  for (const auto& [name, value] : plan.mpirun.variables) {
    out << name << "=" << absl::CHexEscape(value) << "\n";
  }
  out << std::flush;
  return absl::OkStatus();
}

}  // namespace braid
