#include "cli/launch_options.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/user_file.h"
#include "client/terminal/terminal_text.h"
#include "control/launch/launcher.h"
#include "control/launch/scheduler.h"
#include "control/supervision/attempt_process.h"
#include "rpc/executable_path.h"
#include "runs/run_spec.h"

namespace braid {
namespace {

constexpr char kSlurm[] = "Slurm";
constexpr char kKubernetes[] = "Kubernetes (experimental)";
constexpr char kHosts[] = "Several hosts";

absl::Status Bad(const std::string& what, const std::string& got, const std::string& expected) {
  constexpr size_t kShownBytes = 40;
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": got \"", absl::CHexEscape(got.substr(0, kShownBytes)), "\"",
                   got.size() > kShownBytes ? " (cut)" : "", ", expected ", expected));
}

absl::StatusOr<v1::HostSlots> MakeHost(const std::string& name, const std::string& slots,
                                       const std::string& where) {
  v1::HostSlots host;
  host.set_host(name);
  int32_t count = 0;
  if (!slots.empty()) {
    if (!absl::SimpleAtoi(slots, &count) || count < 1) {
      return Bad(where, slots, "a number of ranks for " + absl::CHexEscape(name.substr(0, 40)));
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
    ASSIGN_OR_RETURN(const std::string text, ReadUserFile(options.hostfile));
    ASSIGN_OR_RETURN(hosts, ParseHostfile(text));
    if (hosts.empty()) return Bad("--hostfile", options.hostfile, "at least one host in the file");
  }
  launch->mutable_hosts()->Assign(hosts.begin(), hosts.end());
  return absl::OkStatus();
}

void PrintPlan(const LaunchPlan& plan, const std::filesystem::path& hostfile, std::ostream& out) {
  out << "# executed\n" << ShellText(plan.start) << "\n\n";
  if (!plan.submission.empty()) {
    out << "# " << plan.submission.string() << "\n" << plan.submission_text << "\n";
  }
  if (!plan.hostfile.empty()) {
    out << "# " << hostfile.string() << "\n" << plan.hostfile << "\n";
  }
  out << "# executed by braid-supervisor\n" << ShellText(plan.mpirun.arguments) << "\n\n";
  out << "# variables of mpirun\n";
  for (const auto& [name, value] : plan.mpirun.variables) {
    out << name << "=" << absl::CHexEscape(value) << "\n";
  }
  out << std::flush;
}

nlohmann::json PlanJson(const LaunchPlan& plan, const std::filesystem::path& hostfile) {
  nlohmann::json json = {{"executed", plan.start},
                         {"files", nlohmann::json::object()},
                         {"mpirun", plan.mpirun.arguments},
                         {"variables", plan.mpirun.variables}};
  if (!plan.submission.empty()) json["files"][plan.submission.string()] = plan.submission_text;
  if (!plan.hostfile.empty()) json["files"][hostfile.string()] = plan.hostfile;
  return json;
}

}  // namespace

void LaunchOptions::AddTo(CLI::App* command) {
  command
      ->add_option("--backend", backend,
                   FieldHelpText("braid.v1.LaunchConfig", "launch.", "backend"))
      ->check(OneOf({"local", "hostfile", "slurm", "kubernetes"}))
      ->group(kHosts);
  auto* const list =
      command->add_option("--hosts", hosts, "Hosts and ranks on each, in order [launch.hosts]")
          ->type_name("HOST:RANKS,...")
          ->check(NotEmpty("a list of hosts"))
          ->group(kHosts);
  command
      ->add_option("--hostfile", hostfile,
                   "Open MPI hostfile, one 'HOST slots=RANKS' per line [launch.hosts]")
      ->type_name("FILE")
      ->excludes(list)
      ->group(kHosts);
  const auto add = [&](const char* group, const char* flag, const char* path) {
    fields.Add(command, flag, path)->group(group);
  };
  add(kHosts, "--interface", "network_interface");
  add(kSlurm, "--partition", "slurm.partition");
  add(kSlurm, "--account", "slurm.account");
  add(kSlurm, "--qos", "slurm.qos");
  add(kSlurm, "--nodes", "slurm.nodes");
  add(kSlurm, "--gpus-per-node", "slurm.gpus_per_node");
  add(kSlurm, "--time-limit", "slurm.time_limit_minutes");
  add(kKubernetes, "--namespace", "kubernetes.namespace");
  add(kKubernetes, "--image", "kubernetes.image");
  add(kKubernetes, "--volume-claim", "kubernetes.volume_claim");
  add(kKubernetes, "--mount-path", "kubernetes.mount_path");
  add(kKubernetes, "--workers", "kubernetes.workers");
  add(kKubernetes, "--cpu", "kubernetes.cpu");
  add(kKubernetes, "--memory", "kubernetes.memory");
  add(kKubernetes, "--gpus", "kubernetes.gpus");
  command->add_flag("--print-launch", print,
                    "Print the files and commands of the launch without executing it");
}

absl::Status LaunchOptions::Apply(v1::LaunchConfig* launch) const {
  if (!backend.empty()) {
    v1::LaunchBackend parsed = v1::LAUNCH_BACKEND_UNSPECIFIED;
    if (!v1::LaunchBackend_Parse(absl::AsciiStrToUpper(backend), &parsed)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--backend: got \"", backend, "\", expected local, hostfile, slurm or kubernetes"));
    }
    launch->set_backend(parsed);
  }
  RETURN_IF_ERROR(SetHosts(*this, launch));
  return fields.Apply(launch);
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

absl::Status PrintLaunch(Session& session, v1::RunSpec spec, std::ostream& out) {
  const ConnectionOptions& options = session.options;
  if (!options.server.empty()) {
    return absl::InvalidArgumentError(
        "--print-launch: cannot be combined with --server, which launches runs with its own "
        "programs; run this command on the server's machine without --server");
  }
  if (!spec.init_from().empty()) {
    ASSIGN_OR_RETURN(*spec.mutable_init_from(), ModelDirectory(session, spec.init_from()));
  }
  ASSIGN_OR_RETURN(const v1::RunSpec resolved, ResolveRunSpec(spec));
  ASSIGN_OR_RETURN(const LauncherPrograms programs,
                   FindLauncherPrograms(ProgramsOf(options), resolved));
  ASSIGN_OR_RETURN(const MpirunSite site, LocalSite(programs, resolved));
  // A placeholder for the id that a launch would assign.
  const std::filesystem::path run_dir =
      std::filesystem::absolute(options.home).lexically_normal() / "runs/run-NNNNNN";
  const std::string job_name = SchedulerOf(resolved.launch().backend()) == nullptr
                                   ? ""
                                   : "braid-run-nnnnnn-0123456789abcdef";
  ASSIGN_OR_RETURN(const LaunchPlan plan, PlanLaunch(programs, site, run_dir, resolved, job_name));
  if (session.json) {
    // Variables of the environment need not be UTF-8.
    out << PlanJson(plan, HostfileOf(run_dir))
               .dump(1, ' ', false, nlohmann::json::error_handler_t::replace)
        << std::endl;
    return absl::OkStatus();
  }
  PrintPlan(plan, HostfileOf(run_dir), out);
  return absl::OkStatus();
}

}  // namespace braid
