#include "server/open_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace braid {
namespace {

constexpr rlim_t kMaxDescriptors = 65'536;
constexpr int64_t kDescriptorsForFiles = 96;

// Returns the inode of a descriptor; 0 when it is closed.
ino_t InodeOf(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

ConnectionLimits DeriveLimits(ConnectionLimits limits, int64_t max_descriptors) {
  const int64_t few = std::min(kDescriptorsForFiles, max_descriptors / 2);
  const int64_t usable =
      std::max<int64_t>(2, std::min(max_descriptors - few, max_descriptors - max_descriptors / 4));
  limits.total = limits.total == 0 ? usable : std::min(limits.total, usable);
  if (limits.per_address == 0) limits.per_address = std::max<int64_t>(1, limits.total / 2);
  limits.per_address = std::min(limits.per_address, limits.total);
  return limits;
}

int64_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;  // the usual soft limit
  const rlim_t wanted = std::min(limit.rlim_max, kMaxDescriptors);
  if (limit.rlim_cur < wanted) {
    const rlimit raised = {wanted, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit.rlim_cur = wanted;
  }
  return static_cast<int64_t>(std::min(limit.rlim_cur, kMaxDescriptors));
}

std::string PeerNetwork(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof(text));
    return text;
  }
  if (address.ss_family != AF_INET6) return "unknown";
  in6_addr network = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  // A socket for IPv6 reports clients that use IPv4 in this form. Their common /64 network would
  // make all of them one client.
  if (IN6_IS_ADDR_V4MAPPED(&network)) {
    inet_ntop(AF_INET, &network.s6_addr[12], text, sizeof(text));
    return text;
  }
  std::fill(network.s6_addr + 8, network.s6_addr + 16, 0);
  inet_ntop(AF_INET6, &network, text, sizeof(text));
  return absl::StrCat(text, "/64");
}

int64_t OpenConnections::CountOf(const std::string& network) const {
  const auto found = counts_.find(network);
  return found == counts_.end() ? 0 : found->second;
}

void OpenConnections::Remove(int descriptor) {
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) return;
  const auto count = counts_.find(found->second.network);
  if (--count->second == 0) counts_.erase(count);
  connections_.erase(found);
}

int64_t OpenConnections::Sweep() {
  std::vector<int> closed;
  for (const auto& [descriptor, connection] : connections_) {
    if (InodeOf(descriptor) != connection.inode) closed.push_back(descriptor);
  }
  for (const int descriptor : closed) Remove(descriptor);
  return static_cast<int64_t>(connections_.size());
}

std::string OpenConnections::Admit(int descriptor, const std::string& network) {
  Remove(descriptor);  // an earlier connection with this descriptor is over
  const auto full = [&] {
    return static_cast<int64_t>(connections_.size()) >= limits_.total ||
           CountOf(network) >= limits_.per_address;
  };
  // A sweep makes a system call for each connection, so it is made only at a limit.
  if (full()) Sweep();
  if (static_cast<int64_t>(connections_.size()) >= limits_.total) {
    return absl::StrCat("all ", limits_.total, " connections are in use");
  }
  if (CountOf(network) >= limits_.per_address) {
    return absl::StrCat(network, " has all ", limits_.per_address,
                        " connections that one address may have");
  }
  connections_[descriptor] = {InodeOf(descriptor), network};
  ++counts_[network];
  return "";
}

}  // namespace braid
