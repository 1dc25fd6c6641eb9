#include "server/connection_acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rpc/grpc_keepalive.h"

namespace braid {
namespace {

using std::chrono::steady_clock;

// Time between attempts when the system has no descriptors, memory or address to give.
constexpr std::chrono::milliseconds kBackOff{100};
// Maximum time until a stop is noticed without wake_, for which there may have been no descriptor:
// poll() ignores a negative one.
constexpr int kMaxWaitMs = 1000;
// Failed checks in a row after which the server is deaf.
constexpr int kMaxFailedChecks = 3;

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

// Sets what gRPC sets on the connections that it accepts itself.
void Configure(int descriptor) {
  const int on = 1;
  const int timeout_ms = kKeepaliveTimeoutMs;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

bool IsShortage(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS ||
         error_number == ENOMEM;
}

// Returns whether accept() failed because of the socket and not because of one connection.
bool IsBroken(int error_number) {
  return error_number == EBADF || error_number == EINVAL || error_number == ENOTSOCK ||
         error_number == EOPNOTSUPP;
}

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(ListeningSockets sockets, AcceptorOptions options)
    : options_(std::move(options)),
      sockets_(std::move(sockets)),
      connections_(options_.limits),
      spare_(OpenSpare()),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      // The first problem is reported at once.
      last_report_(steady_clock::now() - options_.quiet),
      accepting_([this] { AcceptLoop(); }),
      checking_([this] { CheckLoop(); }) {}

ConnectionAcceptor::~ConnectionAcceptor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  Wake();
  accepting_.join();
  checking_.join();
  if (spare_ >= 0) close(spare_);
  if (wake_ >= 0) close(wake_);
}

ConnectionCounts ConnectionAcceptor::counts() const {
  ConnectionCounts counts{.max_open = options_.limits.total,
                          .accepted = accepted_,
                          .refused = refused_,
                          .exhausted = exhausted_,
                          .reopened = reopened_};
  const std::lock_guard lock(mutex_);
  counts.open = connections_.Sweep();
  return counts;
}

void ConnectionAcceptor::Wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
}

bool ConnectionAcceptor::StopsWithin(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return stopped_.wait_for(lock, time, [this] { return stop_; });
}

void ConnectionAcceptor::AcceptLoop() {
  while (!StopsWithin(std::chrono::milliseconds(0))) {
    std::vector<pollfd> waits = {{wake_, POLLIN, 0}};
    for (const int listener : sockets_.descriptors()) waits.push_back({listener, POLLIN, 0});
    if (poll(waits.data(), waits.size(), kMaxWaitMs) < 0) {
      if (errno != EINTR) StopsWithin(kBackOff);
      continue;
    }
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t got = read(wake_, &ignored, sizeof(ignored));
    bool works = !reopen_.exchange(false);
    for (size_t i = 1; i < waits.size(); ++i) {
      // An error event as well: accept4() then returns the cause.
      if (waits[i].revents != 0) works = AcceptFrom(waits[i].fd) && works;
    }
    if (!works) ReopenUntilBound();
  }
}

bool ConnectionAcceptor::AcceptFrom(int listener) {
  while (true) {
    sockaddr_storage peer = {};
    socklen_t length = sizeof(peer);
    const int descriptor = accept4(listener, reinterpret_cast<sockaddr*>(&peer), &length,
                                   SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      // Counts connections that are refused as well: for CheckOnce they prove that the socket
      // works.
      ++heard_;
      Enter(listener, descriptor, peer);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    } else if (IsShortage(errno)) {
      RefuseForLackOfDescriptors(listener);
      return true;  // waits for the next event, so that a stop is noticed
    } else if (IsBroken(errno)) {
      return false;
    }
    // Other errors concern a connection that its client has given up.
  }
}

void ConnectionAcceptor::Enter(int listener, int descriptor, const sockaddr_storage& peer) {
  std::string refusal;
  {
    const std::lock_guard lock(mutex_);
    // Before gRPC has the descriptor: Admit() reads its inode, and gRPC may close it at any time.
    refusal = connections_.Admit(descriptor, PeerNetwork(peer));
  }
  if (refusal.empty()) {
    ++accepted_;
    Configure(descriptor);
    options_.on_connection(listener, descriptor);
    return;
  }
  ++refused_;
  close(descriptor);
  Report(absl::StrCat("refused a connection: ", refusal));
}

void ConnectionAcceptor::RefuseForLackOfDescriptors(int listener) {
  const int error_number = errno;
  ++exhausted_;
  // A connection that stays in the backlog would make poll return at once, again and again. With
  // the descriptor of the spare it is accepted and closed, which its client notices.
  if (spare_ >= 0) close(spare_);
  const int descriptor = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor >= 0) {
    ++heard_;
    ++refused_;
    close(descriptor);
  }
  spare_ = OpenSpare();
  const bool lacks_files = error_number == EMFILE || error_number == ENFILE;
  Report(absl::StrCat("refused a connection: ", std::strerror(error_number),
                      lacks_files ? "; raise the limit on open files (ulimit -n, LimitNOFILE)"
                                  : "; free memory on this machine"));
  // Another thread may have taken the descriptor in between.
  if (spare_ < 0 || descriptor < 0) StopsWithin(kBackOff);
}

void ConnectionAcceptor::Report(const std::string& problem) {
  const auto now = steady_clock::now();
  if (now - last_report_ < options_.quiet) {
    ++not_reported_;
    return;
  }
  last_report_ = now;
  const int64_t others = std::exchange(not_reported_, 0);
  options_.on_problem(
      others == 0 ? problem
                  : absl::StrCat(problem, " (and ", others, " more since the last report)"));
}

void ConnectionAcceptor::ReopenUntilBound() {
  const auto start = steady_clock::now();
  // As long as CheckLoop() waits for a socket that does not work.
  const auto limit = kMaxFailedChecks * (options_.check_interval + options_.check_patience);
  options_.on_problem("the listening socket failed; opening it again");
  while (true) {
    absl::Status status;
    {
      const std::lock_guard lock(mutex_);
      // The other thread connects to the sockets in CheckOnce().
      status = sockets_.Reopen();
    }
    if (status.ok()) break;
    if (steady_clock::now() - start > limit) options_.on_deaf(std::string(status.message()));
    if (StopsWithin(kBackOff)) return;
  }
  ++reopened_;
}

bool ConnectionAcceptor::CheckOnce() {
  const int64_t before = heard_;
  int descriptor = -1;
  {
    const std::lock_guard lock(mutex_);
    descriptor = sockets_.Connect();
  }
  if (descriptor < 0) return true;  // without a descriptor, nothing is known
  const auto deadline = steady_clock::now() + options_.check_patience;
  bool stops = false;
  // Any connection counts: each of them shows that accept() works.
  while (heard_ == before && !stops && steady_clock::now() < deadline) {
    stops = StopsWithin(std::chrono::milliseconds(10));
  }
  close(descriptor);
  // A check that the destructor interrupts has not failed.
  return stops || heard_ != before;
}

void ConnectionAcceptor::CheckLoop() {
  int failed = 0;
  int64_t heard = heard_;
  while (!StopsWithin(options_.check_interval)) {
    // A connection of a client since the last round makes the check unnecessary.
    const bool works = heard != heard_ || CheckOnce();
    heard = heard_;
    if (works) {
      failed = 0;
      continue;
    }
    ++failed;
    if (failed >= kMaxFailedChecks) {
      options_.on_deaf(absl::StrCat("no connection was accepted in ", failed,
                                    " checks in a row, although the sockets were opened again"));
    }
    // The accepting thread alone may replace the sockets, which it uses without a lock.
    reopen_ = true;
    Wake();
  }
}

}  // namespace braid
