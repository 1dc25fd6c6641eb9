// Which hosts answer at all, asked over the network that the ranks talk over.
#ifndef BRAID_CONTROL_SUPERVISION_HOST_PROBE_H_
#define BRAID_CONTROL_SUPERVISION_HOST_PROBE_H_

#include <future>
#include <string>
#include <vector>

namespace braid {

enum class Reachability {
  // A TCP connection was made or refused: either way the host answered.
  kReachable,
  // No answer within the time, or no route.
  kUnreachable,
  // The name has no address, or none was found within the time.
  kUnknown,
};

// Of each host, asked all at once for at most `timeout_seconds`, and a moment. A host whose
// firewall drops connections to port 22 looks unreachable, so compare hosts of one kind.
std::vector<Reachability> ProbeHosts(const std::vector<std::string>& hosts, double timeout_seconds);

// The same without waiting, not even where the future is thrown away.
std::future<std::vector<Reachability>> ProbeHostsInBackground(std::vector<std::string> hosts,
                                                              double timeout_seconds);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_HOST_PROBE_H_
