// Checks which hosts answer over the network that the ranks use.
#ifndef BRAID_CONTROL_SUPERVISION_HOST_PROBE_H_
#define BRAID_CONTROL_SUPERVISION_HOST_PROBE_H_

#include <future>
#include <string>
#include <vector>

namespace braid {

enum class Reachability {
  // A TCP connection was made or refused: either way the host answered.
  kReachable,
  // No answer within the timeout, or no route.
  kUnreachable,
  // The name could not be resolved, or not within the timeout.
  kUnknown,
};

// Returns the reachability of each host. All hosts are probed at once (TCP, port 22), for at most
// `timeout_seconds` plus a quarter of a second. A host whose firewall drops connections to port 22
// looks unreachable, so compare only hosts with the same configuration.
std::vector<Reachability> ProbeHosts(const std::vector<std::string>& hosts, double timeout_seconds);

// Starts ProbeHosts in the background. Never blocks; the future may be discarded.
std::future<std::vector<Reachability>> ProbeHostsInBackground(std::vector<std::string> hosts,
                                                              double timeout_seconds);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_HOST_PROBE_H_
