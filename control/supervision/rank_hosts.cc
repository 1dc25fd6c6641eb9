#include "control/supervision/rank_hosts.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace braid {

// mpirun fills the hosts in the order of the hostfile, each with as many ranks as it has slots.
std::string AddressOf(const v1::LaunchConfig& launch, const v1::Heartbeat& beat) {
  int first = 0;
  for (const v1::HostSlots& host : launch.hosts()) {
    first += std::max(1, host.slots());
    if (beat.rank() < first) return host.host();
  }
  return beat.host();
}

std::vector<std::string> AddressesOf(const v1::LaunchConfig& launch,
                                     std::span<const v1::Heartbeat> beats) {
  std::set<std::string> addresses;
  for (const v1::Heartbeat& beat : beats) addresses.insert(AddressOf(launch, beat));
  return {addresses.begin(), addresses.end()};
}

std::vector<v1::Heartbeat> RanksOnNode(const v1::LaunchConfig& launch,
                                       std::span<const v1::Heartbeat> beats,
                                       const std::string& node) {
  std::vector<v1::Heartbeat> found;
  for (const v1::Heartbeat& beat : beats) {
    if (beat.host() == node || AddressOf(launch, beat) == node) found.push_back(beat);
  }
  return found;
}

CutHosts FindCutHosts(const v1::LaunchConfig& launch, std::span<const v1::Heartbeat> beats,
                      std::span<const Reachability> probe, const std::string& own_host) {
  const std::vector<std::string> addresses = AddressesOf(launch, beats);
  std::vector<std::string> cut, remote;
  std::vector<v1::Heartbeat> own = RanksOnNode(launch, beats, own_host);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const bool ours = !own.empty() && AddressOf(launch, own.front()) == addresses[i];
    if (!ours) remote.push_back(addresses[i]);
    if (probe[i] == Reachability::kUnreachable) cut.push_back(addresses[i]);
  }
  if (cut.empty()) {
    const auto unknown = std::ranges::count(probe, Reachability::kUnknown);
    if (unknown == 0) {
      return {{}, absl::StrCat("every host answers ", own_host, "; the cause is unknown")};
    }
    return {{},
            absl::StrCat(own_host, " cannot find the addresses of ", unknown, " of ", probe.size(),
                         " hosts: its network or DNS may be down")};
  }
  // With a single other host, either end of the link may be down; the other host is reported.
  if (cut == remote && remote.size() > 1) {
    return {std::move(own), absl::StrCat("none of the other hosts answers ", own_host,
                                         ": its own link is at fault")};
  }
  CutHosts result;
  result.cause = absl::StrCat(
      "the network link of ", absl::StrJoin(cut, ", "), " is down: it does not answer ", own_host,
      " (TCP port 22), though its ranks still write to the shared directory");
  for (const std::string& address : cut) {
    for (v1::Heartbeat& beat : RanksOnNode(launch, beats, address)) {
      result.ranks.push_back(std::move(beat));
    }
  }
  return result;
}

}  // namespace braid
