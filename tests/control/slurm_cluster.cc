#include "tests/control/slurm_cluster.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "control/launch/scheduler.h"
#include "control/supervision/child_program.h"
#include "control/supervision/subprocess.h"
#include "tests/base/scratch_directory.h"

namespace braid {
namespace {

constexpr std::chrono::seconds kStartLimit(40);
constexpr std::chrono::seconds kEndLimit(10);

constexpr char kConfiguration[] = R"(ClusterName=braidtest
SlurmctldHost=HOST(ADDRESS)
SlurmctldPort=CTLD_PORT
SlurmdPort=NODE_PORT
AuthType=auth/munge
AuthInfo=socket=ROOT/munge.sock
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=ROOT/state
SlurmdSpoolDir=ROOT/spool-%n
SlurmctldPidFile=ROOT/slurmctld.pid
SlurmdPidFile=ROOT/slurmd-%n.pid
SlurmctldLogFile=ROOT/slurmctld.log
SlurmdLogFile=ROOT/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
MpiDefault=none
KillWait=20
NODES
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
)";

std::string OwnHost() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return std::string(name).substr(0, std::string(name).find('.'));
}

// Free at the moment of asking.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  bind(fd, reinterpret_cast<sockaddr*>(&address), length);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  close(fd);
  return ntohs(address.sin_port);
}

bool Within(std::chrono::seconds limit, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    poll(nullptr, 0, 50);
  }
  return true;
}

absl::Status RequireSlurm() {
  if (geteuid() != 0) return absl::FailedPreconditionError("a cluster of its own needs root");
  setenv("PATH", absl::StrCat(getenv("PATH"), ":/usr/sbin:/sbin").c_str(), 1);
  for (const char* program : {"munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel",
                              "sinfo", "scontrol", "mpirun"}) {
    RETURN_IF_ERROR(RequireProgram(program, "apt-get install slurm-wlm munge").status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SlurmCluster>> SlurmCluster::Start(int num_nodes) {
  RETURN_IF_ERROR(RequireSlurm());
  std::unique_ptr<SlurmCluster> cluster(new SlurmCluster);
  std::string name = (std::filesystem::temp_directory_path() / "braid-slurm-XXXXXX").string();
  cluster->root_ = mkdtemp(name.data());
  cluster->num_nodes_ = num_nodes;
  if (num_nodes > 1) {
    cluster->network_ = std::make_unique<HostNetwork>(num_nodes, cluster->root_);
    const std::string& problem = cluster->network_->problem();
    if (!problem.empty()) return absl::FailedPreconditionError(problem);
  }
  RETURN_IF_ERROR(cluster->StartDaemons());
  RETURN_IF_ERROR(cluster->WaitUntilIdle());
  return cluster;
}

absl::Status SlurmCluster::StartDaemons() {
  const std::string root = root_.string();
  std::filesystem::permissions(root_, std::filesystem::perms(0755));
  std::filesystem::create_directory(root_ / "state");
  std::string nodes;
  for (int node = 1; node <= num_nodes_; ++node) {
    std::filesystem::create_directory(root_ / ("spool-" + NodeName(node)));
    absl::StrAppend(&nodes, "NodeName=", NodeName(node),
                    " NodeAddr=", network_ ? network_->Address(node) : "127.0.0.1",
                    " CPUs=", network_ ? 1 : 2, " State=UNKNOWN\n");
  }
  PutFile(root_ / "slurm.conf",
          absl::StrReplaceAll(kConfiguration,
                              {{"ROOT", root},
                               {"HOST", OwnHost()},
                               {"ADDRESS", network_ ? network_->Gateway() : "127.0.0.1"},
                               {"NODES\n", nodes},
                               {"CTLD_PORT", absl::StrCat(FreePort())},
                               {"NODE_PORT", absl::StrCat(FreePort())}}));
  std::string key;
  std::random_device random;
  for (int i = 0; i < 256; ++i) key.push_back(static_cast<char>(random()));
  PutFile(root_ / "key", key);
  std::filesystem::permissions(root_ / "key", std::filesystem::perms(0600));
  setenv("SLURM_CONF", (root_ / "slurm.conf").c_str(), 1);
  RETURN_IF_ERROR(
      Fork("munged", {"munged", "--foreground", "--force", "-S", root + "/munge.sock",
                      "--key-file=" + root + "/key", "--pid-file=" + root + "/munged.pid",
                      "--log-file=" + root + "/munged.log", "--seed-file=" + root + "/seed"}));
  if (!Within(kStartLimit, [&] { return std::filesystem::exists(root_ / "munge.sock"); })) {
    return absl::DeadlineExceededError("munged made no socket\n" + LogTails());
  }
  RETURN_IF_ERROR(Fork("slurmctld", {"slurmctld", "-D", "-f", root + "/slurm.conf"}));
  for (int node = 1; node <= num_nodes_; ++node) RETURN_IF_ERROR(StartNode(node));
  return absl::OkStatus();
}

std::string SlurmCluster::NodeName(int node) const {
  return network_ ? network_->Name(node) : OwnHost();
}

absl::Status SlurmCluster::StartNode(int node) {
  std::vector<std::string> command = network_ ? network_->On(node) : std::vector<std::string>();
  command.insert(command.end(),
                 {"slurmd", "-D", "-N", NodeName(node), "-f", (root_ / "slurm.conf").string()});
  return Fork(command.front(), command);
}

void SlurmCluster::FailNode(int node) {
  for (const pid_t pid : network_->Processes(node)) kill(pid, SIGKILL);
  (void)AskScheduler({"scontrol", "update", "NodeName=" + NodeName(node), "State=DOWN",
                      "Reason=the test has killed it"});
}

absl::Status SlurmCluster::RestartNode(int node) {
  RETURN_IF_ERROR(StartNode(node));
  return WaitUntilIdle();
}

absl::Status SlurmCluster::Fork(const std::string& name, std::vector<std::string> arguments) {
  ASSIGN_OR_RETURN(const std::string program, RequireProgram(name, ""));
  const std::string file = std::filesystem::path(program).filename().string() + ".out";
  const int log = open((root_ / file).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  absl::StatusOr<ChildProgram> child = ChildProgram::Fork({.program = program,
                                                           .arguments = std::move(arguments),
                                                           .environment = TrainerEnvironment(),
                                                           .directory = root_.string(),
                                                           .standard_output = log,
                                                           .standard_error = log,
                                                           .die_with_parent = true});
  close(log);
  RETURN_IF_ERROR(child.status());
  RETURN_IF_ERROR(child->Execute());
  daemons_.push_back(child->pid());
  return absl::OkStatus();
}

absl::Status SlurmCluster::WaitUntilIdle() {
  const auto is_idle = [this] {
    const auto lines = AskScheduler({"sinfo", "--noheader", "--Node", "--format=%T"});
    return lines.ok() && std::ssize(*lines) == num_nodes_ &&
           std::count(lines->begin(), lines->end(), "idle") == num_nodes_;
  };
  if (Within(kStartLimit, is_idle)) return absl::OkStatus();
  return absl::DeadlineExceededError("the nodes did not become idle\n" + LogTails());
}

SlurmCluster::~SlurmCluster() {
  (void)AskScheduler({"scancel", absl::StrCat("--user=", geteuid())});
  const auto has_none = [] {
    const auto lines = AskScheduler({"squeue", "--noheader", "--format=%i"});
    return !lines.ok() || lines->empty();
  };
  Within(kEndLimit, has_none);
  for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {
    kill(*daemon, SIGTERM);
    const auto gone = [&] { return waitpid(*daemon, nullptr, WNOHANG) != 0; };
    if (Within(kEndLimit, gone)) continue;
    kill(*daemon, SIGKILL);
    waitpid(*daemon, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

std::vector<std::string> SlurmCluster::Jobs(const std::string& name) {
  std::vector<std::string> arguments = {"squeue", "--noheader", "--states=all", "--format=%i %T"};
  if (!name.empty()) arguments.push_back("--name=" + name);
  return AskScheduler(std::move(arguments)).value_or(std::vector<std::string>());
}

std::string SlurmCluster::LogTails() const {
  std::string tails;
  for (const auto& entry : std::filesystem::directory_iterator(root_)) {
    if (entry.path().extension() != ".log" && entry.path().extension() != ".out") continue;
    const std::string text = GetFile(entry.path());
    absl::StrAppend(&tails, entry.path().filename().string(), ":\n",
                    text.substr(text.size() - std::min<size_t>(text.size(), 1500)));
  }
  return tails;
}

}  // namespace braid
