// A port has one server, and what prevents listening is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/listening_sockets.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/server/real_braidd.h"

namespace braid {
namespace one_port_test {

using ::testing::HasSubstr;

TEST(OnePortTest, ASecondBraiddIsRefused) {
  ScratchDirectory scratch;
  RealBraidd first(BRAID_BIN_DIR "/braidd", scratch / "first", {});
  ASSERT_TRUE(first.Start());
  for (const std::string& host : {std::string("127.0.0.1"), std::string("0.0.0.0")}) {
    TestProgram second({BRAID_BIN_DIR "/braidd", "--insecure", "--listen",
                        host + first.address().substr(first.address().rfind(':')), "--home",
                        (scratch / "second").string()});
    EXPECT_EQ(second.Wait(), 4) << second.out();
    EXPECT_THAT(second.err(), HasSubstr("the port is in use by another process"));
    EXPECT_EQ(second.out(), "");
  }
  TestProgram jobs({BRAID_BIN_DIR "/braid", "--server", first.address(), "jobs"});
  EXPECT_EQ(jobs.Wait(), 0) << jobs.err();
  EXPECT_EQ(first.Terminate(), 0);
  EXPECT_TRUE(first.Start()) << "its port is free at once";
}

TEST(OnePortTest, TheAddressOfMetricsIsDiagnosedLikeThatOfTheServices) {
  ScratchDirectory scratch;
  ASSERT_OK_AND_ASSIGN(const ListeningSockets taken, ListeningSockets::Open("127.0.0.1:0"));
  const auto refused = [&](const std::string& metrics, int exit_code) {
    TestProgram braidd({BRAID_BIN_DIR "/braidd", "--insecure", "--listen", "127.0.0.1:0", "--home",
                        (scratch / "home").string(), "--metrics", metrics});
    EXPECT_EQ(braidd.Wait(), exit_code);
    EXPECT_EQ(braidd.out(), "") << "it has not begun to serve";
    return braidd.err();
  };
  EXPECT_THAT(refused("127.0.0.1:" + std::to_string(taken.port()), 4),
              HasSubstr("braidd: --metrics: cannot listen at 127.0.0.1:"));
  EXPECT_THAT(refused("192.0.2.1:9464", 2),
              HasSubstr("--metrics: cannot listen at 192.0.2.1:9464: 192.0.2.1 is not an address "
                        "of this machine"));
}

TEST(OnePortTest, AForeignAddressIsNamed) {
  EXPECT_FAILS(ListeningSockets::Open("192.0.2.1:7077"), absl::StatusCode::kInvalidArgument,
               "192.0.2.1 is not an address of this machine");
  EXPECT_FAILS(ListeningSockets::Open("host.invalid:7077"), absl::StatusCode::kInvalidArgument,
               "\"host.invalid\" does not resolve");
}

TEST(OnePortTest, ANameListensOnAllItsAddressesWithOnePort) {
  ASSERT_OK_AND_ASSIGN(ListeningSockets sockets, ListeningSockets::Open("localhost:0"));
  EXPECT_FALSE(sockets.descriptors().empty());
  const int port = sockets.port();
  EXPECT_GT(port, 0);
  EXPECT_FAILS(ListeningSockets::Open("localhost:" + std::to_string(port)),
               absl::StatusCode::kUnavailable, "in use");
  EXPECT_OK(sockets.Reopen());
  EXPECT_EQ(sockets.port(), port);
}

}  // namespace one_port_test
}  // namespace braid
