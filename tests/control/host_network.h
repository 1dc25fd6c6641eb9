// Hosts for a test: network namespaces on a bridge, each with an address and a host name of its
// own, and a remote-launch agent for mpirun. They share the file system and process ids.
#ifndef BRAID_TESTS_CONTROL_HOST_NETWORK_H_
#define BRAID_TESTS_CONTROL_HOST_NETWORK_H_

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace braid {

class HostNetwork {
 public:
  // Hosts "node-1" ... at 10.B.C.1 ..., where B and C come from the process id. When they
  // cannot be set up (no root, no `ip`), problem() has the reason.
  HostNetwork(int num_hosts, std::filesystem::path directory);
  ~HostNetwork();
  HostNetwork(const HostNetwork&) = delete;
  HostNetwork& operator=(const HostNetwork&) = delete;

  const std::string& problem() const { return problem_; }

  // Hosts count from 1.
  std::string Address(int host) const;
  // The address at which hosts reach this machine, and it them.
  std::string Gateway() const { return Address(254); }
  std::string Name(int host) const;
  // Returns the arguments that run the command after them on a host.
  std::vector<std::string> On(int host) const;
  // Returns a program that does so, called as `AGENT ADDRESS COMMAND...`.
  std::string agent() const { return (directory_ / "agent").string(); }

  // Ids of all processes on a host.
  std::vector<pid_t> Processes(int host) const;
  void SetLink(int host, bool up);

 private:
  bool Ip(std::vector<std::string> arguments);
  std::string Namespace(int host) const;
  void WritePrograms() const;

  const int num_hosts_;
  const std::filesystem::path directory_;
  const std::string tag_;
  std::string problem_;
};

}  // namespace braid

#endif  // BRAID_TESTS_CONTROL_HOST_NETWORK_H_
