// Where the ranks of a run are, as its spec and its heartbeats tell. Pure.
#ifndef BRAID_CONTROL_SUPERVISION_RANK_HOSTS_H_
#define BRAID_CONTROL_SUPERVISION_RANK_HOSTS_H_

#include <span>
#include <string>
#include <vector>

#include "braid/v1/training.pb.h"
#include "control/supervision/host_probe.h"

namespace braid {

// The address of a rank's host: as the launch names it, where it does, else the host's own name.
std::string AddressOf(const v1::LaunchConfig& launch, const v1::Heartbeat& beat);

// The addresses of all `beats`, each once, sorted.
std::vector<std::string> AddressesOf(const v1::LaunchConfig& launch,
                                     std::span<const v1::Heartbeat> beats);

// Ranks on a node that mpirun names, by address or by the host's own name.
std::vector<v1::Heartbeat> RanksOnNode(const v1::LaunchConfig& launch,
                                       std::span<const v1::Heartbeat> beats,
                                       const std::string& node);

struct CutHosts {
  std::vector<v1::Heartbeat> ranks;
  // What was found, and how; never empty.
  std::string cause;
};

// What a probe of AddressesOf(launch, beats) from `own_host` says about ranks that all wait for
// one another. When several hosts and all but ours are out of reach, our own link is at fault.
CutHosts FindCutHosts(const v1::LaunchConfig& launch, std::span<const v1::Heartbeat> beats,
                      std::span<const Reachability> probe, const std::string& own_host);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_RANK_HOSTS_H_
