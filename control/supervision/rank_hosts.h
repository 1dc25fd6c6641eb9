// The hosts of the ranks of a run, from its spec and its heartbeats. Pure functions.
#ifndef BRAID_CONTROL_SUPERVISION_RANK_HOSTS_H_
#define BRAID_CONTROL_SUPERVISION_RANK_HOSTS_H_

#include <span>
#include <string>
#include <vector>

#include "braid/v1/training.pb.h"
#include "control/supervision/host_probe.h"

namespace braid {

// Returns the address of a rank's host: as the launch names it, or else the host's own name.
std::string AddressOf(const v1::LaunchConfig& launch, const v1::Heartbeat& beat);

// Returns the distinct addresses of all `beats`, sorted.
std::vector<std::string> AddressesOf(const v1::LaunchConfig& launch,
                                     std::span<const v1::Heartbeat> beats);

// Returns the ranks on a node that mpirun names, by address or by the host's own name.
std::vector<v1::Heartbeat> RanksOnNode(const v1::LaunchConfig& launch,
                                       std::span<const v1::Heartbeat> beats,
                                       const std::string& node);

struct CutHosts {
  std::vector<v1::Heartbeat> ranks;
  // What was found and how. Never empty.
  std::string cause;
};

// Interprets a probe of AddressesOf(launch, beats) from `own_host` when all ranks wait for one
// another. When none of several other hosts can be reached, the link of `own_host` itself is at
// fault.
CutHosts FindCutHosts(const v1::LaunchConfig& launch, std::span<const v1::Heartbeat> beats,
                      std::span<const Reachability> probe, const std::string& own_host);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RANK_HOSTS_H_
