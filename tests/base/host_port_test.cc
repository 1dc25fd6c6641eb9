#include "base/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid {
namespace host_port_test {

using testing::HasSubstr;

TEST(CheckHostPortTest, TakesHostsAndPorts) {
  for (const char* address : {"127.0.0.1:7077", "[::1]:1", "host.example.org:65535"}) {
    EXPECT_TRUE(CheckHostPort("--server", address).ok()) << address;
  }
  EXPECT_TRUE(CheckHostPort("--listen", "localhost:0", /*min_port=*/0).ok());
}

TEST(CheckHostPortTest, NamesWhatIsWrong) {
  for (const char* address : {"", "host", ":7077", "host:", "host:0", "host:65536", "host:x"}) {
    const absl::Status status = CheckHostPort("--server", address);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--server: got \""));
  }
  EXPECT_THAT(std::string(CheckHostPort("--server", "http://host:1").message()),
              HasSubstr("leave out \"http://\""));
}

}  // namespace host_port_test
}  // namespace braid
