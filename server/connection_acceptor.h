// Accepts the connections of a server, so that a shortage of descriptors cannot end the service.
#ifndef BRAID_SERVER_CONNECTION_ACCEPTOR_H_
#define BRAID_SERVER_CONNECTION_ACCEPTOR_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "server/listening_sockets.h"
#include "server/open_connections.h"

namespace braid {

struct ConnectionCounts {
  int64_t open = 0;
  int64_t max_open = 0;
  int64_t accepted = 0;   // since the start, like those below
  int64_t refused = 0;    // beyond a limit
  int64_t exhausted = 0;  // accepts that failed for lack of descriptors or memory
  int64_t reopened = 0;   // times that the sockets were opened again
};

struct AcceptorOptions {
  ConnectionLimits limits = {};
  // Takes ownership of the descriptor of a connection, which does not block.
  std::function<void(int listener, int descriptor)> on_connection = nullptr;
  // Logs a problem; called at most every `quiet` for refused connections.
  std::function<void(const std::string&)> on_problem = nullptr;
  // Called when the server cannot be reached and opening its sockets again did not help.
  std::function<void(const std::string&)> on_deaf = nullptr;
  // Interval of the check that connections are accepted, and maximum duration of one check. The
  // sockets are opened again after a failed check; after three failed checks in a row, on_deaf is
  // called.
  std::chrono::milliseconds check_interval{20'000};
  std::chrono::milliseconds check_patience{5'000};
  std::chrono::milliseconds quiet{10'000};
};

// Accepts connections with two threads: one accepts, and one connects to the server whenever no
// connection has arrived for a while.
class ConnectionAcceptor {
 public:
  ConnectionAcceptor(ListeningSockets sockets, AcceptorOptions options);
  // Closes the sockets; connections that were handed over stay open.
  ~ConnectionAcceptor();

  ConnectionCounts counts() const;

 private:
  void AcceptLoop();
  // Accepts all waiting connections of one socket. Returns whether the socket still works.
  bool AcceptFrom(int listener);
  void Enter(int listener, int descriptor, const sockaddr_storage& peer);
  // Refuses one connection with the descriptor that is kept for this purpose.
  void RefuseForLackOfDescriptors(int listener);
  void Report(const std::string& problem);
  void ReopenUntilBound();
  void Wake() const;
  // Returns whether this acceptor is being destroyed; blocks for `time` or until it is.
  bool StopsWithin(std::chrono::milliseconds time);
  void CheckLoop();
  // Returns whether a connection was accepted within the patience; true when that is unknown.
  bool CheckOnce();

  const AcceptorOptions options_;
  ListeningSockets sockets_;             // changed by the accepting thread only, under mutex_
  mutable OpenConnections connections_;  // guarded by mutex_
  int spare_ = -1;                       // accessed only by the accepting thread
  int wake_ = -1;
  std::chrono::steady_clock::time_point last_report_;  // accessed only by the accepting thread
  int64_t not_reported_ = 0;                           // accessed only by the accepting thread
  std::atomic<int64_t> heard_ = 0;  // calls of accept() that returned a connection
  std::atomic<int64_t> accepted_ = 0, refused_ = 0, exhausted_ = 0, reopened_ = 0;
  std::atomic<bool> reopen_ = false;
  mutable std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  std::thread accepting_, checking_;
};

}  // namespace braid

#endif  // BRAID_SERVER_CONNECTION_ACCEPTOR_H_
