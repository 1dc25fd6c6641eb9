// The sockets that a server listens on.
#ifndef BRAID_SERVER_LISTENING_SOCKETS_H_
#define BRAID_SERVER_LISTENING_SOCKETS_H_

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// Non-blocking sockets, one for each address of a host name. No other process can listen on them.
class ListeningSockets {
 public:
  // Binds `address`, HOST:PORT; all addresses of a name get the same port, and port 0 picks a free
  // one. Errors: INVALID_ARGUMENT for a host that does not resolve or is not an address of this
  // machine; UNAVAILABLE for a port in use; PERMISSION_DENIED for one that needs privileges.
  static absl::StatusOr<ListeningSockets> Open(const std::string& address);
  ListeningSockets() = default;
  ~ListeningSockets() { Close(); }
  ListeningSockets(ListeningSockets&& other) noexcept;
  ListeningSockets& operator=(ListeningSockets&& other) noexcept;

  int port() const { return port_; }
  const std::vector<int>& descriptors() const { return descriptors_; }
  // Closes the sockets and binds the same addresses and port again.
  absl::Status Reopen();
  // Starts a connection to the first socket, without waiting for it. Returns its descriptor, or -1.
  int Connect() const;

 private:
  struct Endpoint {
    sockaddr_storage address;
    socklen_t length;
  };

  void Close();

  std::string name_;
  std::vector<Endpoint> endpoints_;
  std::vector<int> descriptors_;
  int port_ = 0;
};

}  // namespace braid

#endif  // BRAID_SERVER_LISTENING_SOCKETS_H_
