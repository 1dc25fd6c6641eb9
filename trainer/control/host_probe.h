// Which hosts answer at all, asked over the network that the ranks talk over.
#ifndef BRAID_TRAINER_CONTROL_HOST_PROBE_H_
#define BRAID_TRAINER_CONTROL_HOST_PROBE_H_

#include <string>
#include <vector>

namespace braid {

enum class Reachability {
  // A TCP connection was made or refused: either way the host answered.
  kReachable,
  // No answer within the time, or no route.
  kUnreachable,
  // The name has no address.
  kUnknown,
};

// Of each host, asked all at once for at most `timeout_seconds`. A host whose firewall drops
// connections to port 22 looks unreachable, so compare hosts of one kind.
std::vector<Reachability> ProbeHosts(const std::vector<std::string>& hosts, double timeout_seconds);

}  // namespace braid

#endif  // BRAID_TRAINER_CONTROL_HOST_PROBE_H_
