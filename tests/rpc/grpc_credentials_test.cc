#include "rpc/grpc_credentials.h"

#include <gtest/gtest.h>

#include "tests/base/status_matchers.h"

namespace braid {
namespace grpc_credentials_test {

TEST(GrpcCredentialsTest, OnlyAddressesOfThisMachineAreLoopback) {
  for (const char* address : {"127.0.0.1:7077", "127.8.9.1:1", "localhost:7077", "[::1]:7077"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
    EXPECT_OK(MakeChannelCredentials(address, {}, /*insecure=*/false));
  }
  for (const char* address : {"127.evil.example:7077", "127.0.0.1.evil.example:7077", "127.1:7077",
                              "0.0.0.0:7077", "localhost.evil.example:7077", "10.0.0.1:7077",
                              "[::2]:7077", "[::]:7077", "128.0.0.1:1", ":7077", ""}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
    EXPECT_FAILS(MakeChannelCredentials(address, {}, /*insecure=*/false),
                 absl::StatusCode::kInvalidArgument, "loopback");
  }
}

}  // namespace grpc_credentials_test
}  // namespace braid
