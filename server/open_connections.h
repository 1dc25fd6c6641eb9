// The connections of a server that are open, counted in total and by address of the peer.
#ifndef BRAID_SERVER_OPEN_CONNECTIONS_H_
#define BRAID_SERVER_OPEN_CONNECTIONS_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <unordered_map>

namespace braid {

// 0: derived from the limit on open files.
struct ConnectionLimits {
  int64_t total = 0;
  int64_t per_address = 0;
};

// Returns `limits` with every 0 replaced, for a process that may open `max_descriptors` files: at
// most three quarters of them are for connections, and at least 96 are kept for files, but at most
// half of few; half of all connections may come from one address.
ConnectionLimits DeriveLimits(ConnectionLimits limits, int64_t max_descriptors);

// Raises the soft limit on open files to the hard one, at most 65,536, since some programs that are
// started as children visit every possible descriptor. Returns the limit in force.
int64_t RaiseDescriptorLimit();

// Returns the key by which connections are counted: an IPv4 address, or the /64 network of an IPv6
// address, because one host may own such a network.
std::string PeerNetwork(const sockaddr_storage& address);

// Counts open connections. gRPC closes them without reporting it, so a connection is identified by
// descriptor and inode, and has ended once its descriptor refers to something else. Not
// thread-safe.
class OpenConnections {
 public:
  explicit OpenConnections(ConnectionLimits limits) : limits_(limits) {}

  // Adds the connection with this descriptor, or returns why it is refused: "" when it was added.
  std::string Admit(int descriptor, const std::string& network);
  // Removes the connections that have been closed. Returns the number that are open.
  int64_t Sweep();

 private:
  struct Connection {
    ino_t inode;
    std::string network;
  };

  int64_t CountOf(const std::string& network) const;
  void Remove(int descriptor);

  const ConnectionLimits limits_;
  std::unordered_map<int, Connection> connections_;  // by descriptor
  std::unordered_map<std::string, int64_t> counts_;  // by network
};

}  // namespace braid

#endif  // BRAID_SERVER_OPEN_CONNECTIONS_H_
