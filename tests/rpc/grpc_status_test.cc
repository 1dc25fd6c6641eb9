#include "rpc/grpc_status.h"

#include <gtest/gtest.h>

namespace braid {
namespace grpc_status_test {

TEST(GrpcStatusTest, EveryCodeSurvivesTheRoundTrip) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "what and where");
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

}  // namespace grpc_status_test
}  // namespace braid
