#include "tests/control/host_network.h"

#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "control/supervision/subprocess.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

void WriteProgram(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
  fs::permissions(path, fs::perms::owner_all);
}

}  // namespace

HostNetwork::HostNetwork(int num_hosts, fs::path directory)
    : num_hosts_(num_hosts), directory_(std::move(directory)), tag_(absl::StrCat("bt", getpid())) {
  if (geteuid() != 0) {
    problem_ = "network namespaces need root";
    return;
  }
  if (!FindProgram("ip")) {
    problem_ = "ip is not installed (iproute2)";
    return;
  }
  bool good = Ip({"link", "add", tag_, "type", "bridge"}) && Ip({"link", "set", tag_, "up"}) &&
              Ip({"addr", "add", Gateway() + "/24", "dev", tag_});
  for (int host = 1; good && host <= num_hosts_; ++host) {
    const std::string space = Namespace(host), port = absl::StrCat(tag_, "p", host);
    good = Ip({"netns", "add", space}) &&
           Ip({"link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space}) &&
           Ip({"link", "set", port, "master", tag_, "up"}) &&
           Ip({"-n", space, "addr", "add", Address(host) + "/24", "dev", "eth0"}) &&
           Ip({"-n", space, "link", "set", "lo", "up"}) &&
           Ip({"-n", space, "link", "set", "eth0", "up"});
  }
  if (good) WritePrograms();
}

HostNetwork::~HostNetwork() {
  if (geteuid() != 0) return;
  for (int host = 1; host <= num_hosts_; ++host) {
    for (const pid_t pid : Processes(host)) kill(pid, SIGKILL);
    Ip({"netns", "delete", Namespace(host)});
  }
  Ip({"link", "delete", tag_});
}

bool HostNetwork::Ip(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "ip");
  const auto result = RunSubprocess(
      {.arguments = arguments, .environment = TrainerEnvironment()},
      [](std::string_view) { return true; }, [] { return false; });
  if (result.ok() && result->exit_code == 0) return true;
  if (problem_.empty()) {
    problem_ = absl::StrCat("ip ", arguments[1], " ", arguments[2], ": ",
                            result.ok() ? result->error_output : "cannot run it");
  }
  return false;
}

std::string HostNetwork::Namespace(int host) const { return absl::StrCat(tag_, "n", host); }
std::string HostNetwork::Name(int host) const { return absl::StrCat("node-", host); }
std::string HostNetwork::Address(int host) const {
  return absl::StrCat("10.", 64 + getpid() / 250 % 64, ".", getpid() % 250, ".", host);
}

std::vector<std::string> HostNetwork::On(int host) const {
  return {(directory_ / "on").string(), Namespace(host), Name(host)};
}

void HostNetwork::WritePrograms() const {
  // Becomes the command on that host. `ip netns exec` would mount another /sys, without cgroups.
  WriteProgram(
      directory_ / "on",
      "#!/bin/sh\nspace=$1; name=$2; shift 2\n"
      "exec nsenter --net=/run/netns/$space unshare -u sh -c 'hostname '$name'; exec \"$@\"' sh "
      "\"$@\"\n");
  // mpirun gives a line for a remote shell, as to ssh.
  std::string agent = "#!/bin/sh\naddress=$1; shift\ncase $address in\n";
  for (int host = 1; host <= num_hosts_; ++host) {
    absl::StrAppend(&agent, Address(host), ") exec ", (directory_ / "on").string(), " ",
                    Namespace(host), " ", Name(host), " sh -c \"$*\";;\n");
  }
  WriteProgram(directory_ / "agent", agent + "esac\nexit 1\n");
}

std::vector<pid_t> HostNetwork::Processes(int host) const {
  std::vector<pid_t> pids;
  (void)RunSubprocess(
      {.arguments = {"ip", "netns", "pids", Namespace(host)}, .environment = TrainerEnvironment()},
      [&](std::string_view line) {
        pid_t pid = 0;
        if (absl::SimpleAtoi(std::string(line), &pid)) pids.push_back(pid);
        return true;
      },
      [] { return false; });
  return pids;
}

void HostNetwork::SetLink(int host, bool up) {
  Ip({"-n", Namespace(host), "link", "set", "eth0", up ? "up" : "down"});
}

}  // namespace braid
