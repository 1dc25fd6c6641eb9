// A server that runs out of descriptors, or whose listening socket fails, serves again without
// help.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/connection_acceptor.h"
#include "server/listening_sockets.h"
#include "server/open_connections.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/program.h"

namespace braid {
namespace descriptor_exhaustion_test {

using ::testing::HasSubstr;

// A TCP connection to 127.0.0.1, from the loopback address `from`.
class Connection {
 public:
  Connection(int port, const char* from, const char* to = "127.0.0.1")
      : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in source = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
    inet_pton(AF_INET, from, &source.sin_addr);
    sockaddr_in target = source;
    inet_pton(AF_INET, to, &target.sin_addr);
    target.sin_port = htons(static_cast<uint16_t>(port));
    bind(descriptor_, reinterpret_cast<const sockaddr*>(&source), sizeof(source));
    connected_ =
        connect(descriptor_, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) == 0;
  }
  ~Connection() { close(descriptor_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Returns whether the server sends something, as an HTTP/2 server does first, before it closes.
  bool IsServed() const {
    char byte = 0;
    pollfd wait = {descriptor_, POLLIN, 0};
    return connected_ && poll(&wait, 1, 30'000) == 1 && recv(descriptor_, &byte, 1, 0) == 1;
  }

 private:
  int descriptor_;
  bool connected_ = false;
};

using Connections = std::vector<std::unique_ptr<Connection>>;

int CountLines(const std::filesystem::path& file, const std::string& text) {
  std::ifstream in(file);
  int count = 0;
  for (std::string line; std::getline(in, line);) count += line.find(text) != std::string::npos;
  return count;
}

class DescriptorExhaustionTest : public testing::Test {
 protected:
  DescriptorExhaustionTest() { getrlimit(RLIMIT_NOFILE, &limit_); }
  ~DescriptorExhaustionTest() override { setrlimit(RLIMIT_NOFILE, &limit_); }

  void SetLimit(rlim_t soft) const {
    const rlimit low = {soft, limit_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }

  // Answers each connection with one byte and closes it once the client has.
  std::unique_ptr<ConnectionAcceptor> Accept(AcceptorOptions options) {
    absl::StatusOr<ListeningSockets> sockets = ListeningSockets::Open("127.0.0.1:0");
    EXPECT_OK(sockets);
    port_ = sockets->port();
    listener_ = sockets->descriptors().front();
    if (!options.on_connection) {
      options.on_connection = [this](int, int descriptor) {
        [[maybe_unused]] const ssize_t sent = send(descriptor, "x", 1, MSG_NOSIGNAL);
        const std::lock_guard lock(mutex_);
        served_.push_back(descriptor);
      };
    }
    options.on_problem = [this](const std::string& problem) {
      const std::lock_guard lock(mutex_);
      problems_ += problem + "\n";
    };
    options.limits = DeriveLimits(options.limits, 1024);
    return std::make_unique<ConnectionAcceptor>(*std::move(sockets), std::move(options));
  }

  void CloseServed() {
    const std::lock_guard lock(mutex_);
    for (const int descriptor : served_) close(descriptor);
    served_.clear();
  }

  std::string problems() {
    const std::lock_guard lock(mutex_);
    return problems_;
  }

  ScratchDirectory scratch_;
  rlimit limit_ = {};
  std::mutex mutex_;
  std::vector<int> served_;  // guarded by mutex_
  std::string problems_;     // guarded by mutex_
  int port_ = 0, listener_ = -1;
};

TEST_F(DescriptorExhaustionTest, ABraiddWithFewDescriptorsSurvivesAFlood) {
  const std::filesystem::path log = scratch_ / "log";
  TestProgram braidd({"/bin/sh", "-c",
                      "ulimit -n 200; exec '" BRAID_BIN_DIR
                      "/braidd' --listen 127.0.0.2:0 --home " +
                          (scratch_ / "home").string() + " --log-file " + log.string()});
  const int port = std::atoi(braidd.WaitForOutput(" at 127.0.0.2:", ", state in").c_str());
  ASSERT_NE(port, 0) << braidd.err();
  Connections held;
  for (int i = 0; i < 400; ++i) {
    held.push_back(std::make_unique<Connection>(port, "127.0.0.1", "127.0.0.2"));
  }
  EXPECT_TRUE(held.front()->IsServed());
  EXPECT_FALSE(held.back()->IsServed()) << "one address must not take all connections";
  EXPECT_TRUE(Connection(port, "127.0.0.9", "127.0.0.2").IsServed())
      << "other addresses are served during the flood";
  held.clear();
  const auto list_jobs = [&] {
    TestProgram jobs(
        {BRAID_BIN_DIR "/braid", "--server", "127.0.0.2:" + std::to_string(port), "jobs"});
    return jobs.Wait();
  };
  EXPECT_TRUE(WaitUntil([&] { return list_jobs() == 0; })) << braidd.err();
  const int logged = CountLines(log, "refused a connection");
  EXPECT_GE(logged, 1);
  EXPECT_LE(logged, 20) << "refusals are logged at a limited rate";
}

TEST_F(DescriptorExhaustionTest, AcceptingContinuesAfterTheLastDescriptorWasUsed) {
  const auto acceptor = Accept({});
  Connections held;
  held.push_back(std::make_unique<Connection>(port_, "127.0.0.1"));
  ASSERT_TRUE(held.front()->IsServed());
  SetLimit(256);
  const auto take = [] { return open("/dev/null", O_RDONLY | O_CLOEXEC); };
  // The client sockets of this process use descriptors too.
  std::vector<int> reserved, files;
  for (int i = 0; i < 8; ++i) reserved.push_back(take());
  for (int file = take(); file >= 0; file = take()) files.push_back(file);
  for (const int file : reserved) {
    close(file);
    held.push_back(std::make_unique<Connection>(port_, "127.0.0.1"));
  }
  EXPECT_TRUE(WaitUntil([&] { return acceptor->counts().exhausted > 0; }));
  for (const int file : files) close(file);
  SetLimit(limit_.rlim_cur);
  held.clear();
  EXPECT_TRUE(Connection(port_, "127.0.0.1").IsServed());
  EXPECT_THAT(problems(), HasSubstr("Too many open files; raise the limit on open files"));
  CloseServed();
}

TEST_F(DescriptorExhaustionTest, AFailedListeningSocketIsOpenedAgain) {
  const auto acceptor = Accept({});
  ASSERT_TRUE(Connection(port_, "127.0.0.1").IsServed());
  ASSERT_EQ(shutdown(listener_, SHUT_RDWR), 0);
  EXPECT_TRUE(WaitUntil([&] { return acceptor->counts().reopened == 1; }));
  EXPECT_TRUE(Connection(port_, "127.0.0.1").IsServed());
  CloseServed();
}

TEST_F(DescriptorExhaustionTest, AnAcceptorThatCannotBeReachedReportsThatItIsDeaf) {
  std::promise<void> release;
  std::promise<std::string> deaf;
  std::atomic<bool> reported = false;
  const auto acceptor = Accept({.on_connection =
                                    [future = release.get_future().share()](int, int descriptor) {
                                      future.wait();
                                      close(descriptor);
                                    },
                                .on_deaf =
                                    [&](const std::string& why) {
                                      if (!reported.exchange(true)) deaf.set_value(why);
                                    },
                                .check_interval = std::chrono::milliseconds(20),
                                .check_patience = std::chrono::milliseconds(20)});
  const Connection blocks(port_, "127.0.0.1");
  EXPECT_THAT(deaf.get_future().get(), HasSubstr("3 checks in a row"));
  release.set_value();
}

TEST_F(DescriptorExhaustionTest, ABraiddThatCannotBeReachedEndsWithAnExitCodeOfItsOwn) {
  const std::filesystem::path log = scratch_ / "log", preloaded = scratch_ / "preloaded.so";
  // LD_PRELOAD is split at spaces, which the build directory may have.
  std::filesystem::create_symlink(BRAID_DEAF_PORT, preloaded);
  TestProgram braidd({BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.1:0", "--home",
                      (scratch_ / "home").string(), "--log-file", log.string()},
                     {.variables = {"LD_PRELOAD=" + preloaded.string(),
                                    // The preloaded library comes before the run-time of a
                                    // sanitizer.
                                    "ASAN_OPTIONS=verify_asan_link_order=0"}});
  const std::string port = braidd.WaitForOutput(" at 127.0.0.1:", ", state in");
  ASSERT_NE(port, "") << braidd.err();
  // A service manager restarts a process that ends with a code other than 0.
  EXPECT_EQ(braidd.Wait(), 69) << braidd.err();
  EXPECT_EQ(CountLines(log, "exiting with code 69, because no connection reaches 127.0.0.1:" +
                                port + ": no connection was accepted in 3 checks in a row"),
            1);
}

TEST_F(DescriptorExhaustionTest, AHealthyAcceptorPassesItsChecks) {
  const auto acceptor = Accept({.on_deaf = [](const std::string& why) { ADD_FAILURE() << why; },
                                .check_interval = std::chrono::milliseconds(1)});
  EXPECT_TRUE(WaitUntil([&] { return acceptor->counts().accepted >= 5; }));
  EXPECT_EQ(acceptor->counts().reopened, 0);
  acceptor->counts();
  CloseServed();
}

TEST_F(DescriptorExhaustionTest, ClosedConnectionsMakeRoom) {
  const auto acceptor = Accept({.limits = {.total = 3, .per_address = 2}});
  for (int round = 0; round < 3; ++round) {
    Connections held;
    for (int i = 0; i < 2; ++i) {
      held.push_back(std::make_unique<Connection>(port_, "127.0.0.1"));
      ASSERT_TRUE(held.back()->IsServed()) << round;
    }
    EXPECT_FALSE(Connection(port_, "127.0.0.1").IsServed());
    EXPECT_TRUE(Connection(port_, "127.0.0.7").IsServed());
    EXPECT_FALSE(Connection(port_, "127.0.0.8").IsServed()) << "three are open";
    EXPECT_EQ(acceptor->counts().open, 3);
    CloseServed();
    EXPECT_EQ(acceptor->counts().open, 0);
  }
  EXPECT_EQ(acceptor->counts().refused, 6);
  EXPECT_EQ(acceptor->counts().accepted, 9);
}

TEST(ConnectionLimitsTest, LeaveDescriptorsForFiles) {
  for (const int64_t descriptors : {8, 64, 200, 1024, 65'536}) {
    const ConnectionLimits limits = DeriveLimits({}, descriptors);
    EXPECT_GE(limits.total, descriptors / 2) << "most are for connections";
    EXPECT_LE(limits.total, descriptors - descriptors / 4);
    EXPECT_LE(limits.total, descriptors - std::min<int64_t>(96, descriptors / 2));
    EXPECT_EQ(limits.per_address, limits.total / 2);
    EXPECT_EQ(DeriveLimits({.total = 1 << 20, .per_address = 1 << 20}, descriptors).total,
              limits.total);
  }
}

TEST(ConnectionLimitsTest, AnIpv6HostCountsAsItsNetwork) {
  const auto network = [](const char* text) {
    sockaddr_storage address = {};
    address.ss_family = AF_INET6;
    inet_pton(AF_INET6, text, &reinterpret_cast<sockaddr_in6&>(address).sin6_addr);
    return PeerNetwork(address);
  };
  EXPECT_EQ(network("2001:db8:1:2:3::4"), "2001:db8:1:2::/64");
  EXPECT_EQ(network("2001:db8:1:2:5::6"), "2001:db8:1:2::/64");
  EXPECT_EQ(network("::ffff:10.1.2.3"), "10.1.2.3");
}

}  // namespace descriptor_exhaustion_test
}  // namespace braid
