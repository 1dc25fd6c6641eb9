#include "trainer/control/host_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace braid {
namespace {

// Where remote launch agents usually listen; any answer will do.
constexpr char kPort[] = "22";

struct Attempt {
  int socket = -1;
  Reachability result = Reachability::kUnknown;
};

Reachability FromError(int error) {
  return error == 0 || error == ECONNREFUSED ? Reachability::kReachable
                                             : Reachability::kUnreachable;
}

Attempt Connect(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* addresses = nullptr;
  if (getaddrinfo(host.c_str(), kPort, &hints, &addresses) != 0) return {};
  const int fd =
      socket(addresses->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  const int failed = fd < 0 || connect(fd, addresses->ai_addr, addresses->ai_addrlen) != 0;
  const int error = failed ? errno : 0;
  freeaddrinfo(addresses);
  if (fd >= 0 && error == EINPROGRESS) return {fd, Reachability::kUnreachable};
  if (fd >= 0) close(fd);
  return {-1, fd < 0 ? Reachability::kUnknown : FromError(error)};
}

void Finish(Attempt* attempt) {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(attempt->socket, SOL_SOCKET, SO_ERROR, &error, &size);
  attempt->result = FromError(error);
  close(attempt->socket);
  attempt->socket = -1;
}

}  // namespace

std::vector<Reachability> ProbeHosts(const std::vector<std::string>& hosts,
                                     double timeout_seconds) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
  std::vector<Attempt> attempts;
  for (const std::string& host : hosts) attempts.push_back(Connect(host));
  const auto open = [](const Attempt& attempt) { return attempt.socket >= 0; };
  while (std::any_of(attempts.begin(), attempts.end(), open) &&
         std::chrono::steady_clock::now() < deadline) {
    std::vector<pollfd> sockets;  // poll passes over negative ones
    for (const Attempt& attempt : attempts) sockets.push_back({attempt.socket, POLLOUT, 0});
    poll(sockets.data(), sockets.size(), 50);
    for (size_t i = 0; i < attempts.size(); ++i) {
      if (open(attempts[i]) && sockets[i].revents != 0) Finish(&attempts[i]);
    }
  }
  std::vector<Reachability> results;
  for (const Attempt& attempt : attempts) {
    if (attempt.socket >= 0) close(attempt.socket);
    results.push_back(attempt.result);
  }
  return results;
}

}  // namespace braid
