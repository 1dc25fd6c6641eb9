#include "control/supervision/host_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace braid {
namespace {

// The port of ssh, where remote launch agents usually listen; a refusal is an answer as well.
constexpr char kPort[] = "22";
constexpr double kSlack = 0.25;  // seconds

Reachability FromError(int error) {
  return error == 0 || error == ECONNREFUSED ? Reachability::kReachable
                                             : Reachability::kUnreachable;
}

// A socket that is being connected, or -1 with a result that is known already.
struct Connection {
  int socket = -1;
  Reachability result = Reachability::kUnknown;
};

Connection Connect(const std::string& host) {
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
  // Without a socket this process has learned nothing about the host.
  return {-1, fd < 0 ? Reachability::kUnknown : FromError(error)};
}

Reachability Probe(const std::string& host, double timeout_seconds) {
  const Connection connection = Connect(host);
  if (connection.socket < 0) return connection.result;
  pollfd waiting = {connection.socket, POLLOUT, 0};
  int error = ETIMEDOUT;
  socklen_t size = sizeof(error);
  if (poll(&waiting, 1, static_cast<int>(1000 * timeout_seconds)) > 0) {
    getsockopt(connection.socket, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  close(connection.socket);
  return FromError(error);
}

// Shared by threads that may outlive ProbeHosts, since name resolution has no timeout.
struct Answers {
  std::mutex mutex;
  std::condition_variable all_known;
  std::vector<Reachability> results;
  size_t missing = 0;
};

}  // namespace

std::vector<Reachability> ProbeHosts(const std::vector<std::string>& hosts,
                                     double timeout_seconds) {
  const auto answers = std::make_shared<Answers>();
  answers->results.assign(hosts.size(), Reachability::kUnknown);
  answers->missing = hosts.size();
  for (size_t i = 0; i < hosts.size(); ++i) {
    std::thread([answers, i, host = hosts[i], timeout_seconds] {
      const Reachability result = Probe(host, timeout_seconds);
      std::lock_guard lock(answers->mutex);
      answers->results[i] = result;
      if (--answers->missing == 0) answers->all_known.notify_all();
    }).detach();
  }
  std::unique_lock lock(answers->mutex);
  // A connection that times out gives its result a little after the timeout.
  answers->all_known.wait_for(lock, std::chrono::duration<double>(timeout_seconds + kSlack),
                              [&] { return answers->missing == 0; });
  // A copy, because threads whose answers come later still write to the shared results.
  return answers->results;
}

std::future<std::vector<Reachability>> ProbeHostsInBackground(std::vector<std::string> hosts,
                                                              double timeout_seconds) {
  // Not std::async: the destructor of its future would wait for the answer.
  std::promise<std::vector<Reachability>> promise;
  std::future<std::vector<Reachability>> result = promise.get_future();
  std::thread([promise = std::move(promise), hosts = std::move(hosts), timeout_seconds]() mutable {
    promise.set_value(ProbeHosts(hosts, timeout_seconds));
  }).detach();
  return result;
}

}  // namespace braid
