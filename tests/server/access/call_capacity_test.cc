#include "server/access/call_capacity.h"

#include <gtest/gtest.h>

#include "tests/base/status_matchers.h"

namespace braid {
namespace call_capacity_test {

constexpr CallLimits kFew = {.named = 5,
                             .named_of_one = 3,
                             .blocking = 4,
                             .blocking_of_one = 1,
                             .open = 2,
                             .open_watches = 1,
                             .refused = 2};

TEST(CallCapacityTest, KindsOfCallsHaveSeparateLimits) {
  CallCapacity capacity(kFew);
  for (int i = 0; i < 2; ++i) EXPECT_OK(capacity.Enter(CallKind::kRefused, ""));
  for (int i = 0; i < 2; ++i) EXPECT_OK(capacity.Enter(CallKind::kOpen, ""));
  EXPECT_OK(capacity.Enter(CallKind::kOpenWatch, ""));
  for (const CallKind kind : {CallKind::kRefused, CallKind::kOpen, CallKind::kOpenWatch}) {
    EXPECT_FAILS(capacity.Enter(kind, ""), absl::StatusCode::kResourceExhausted, "limit");
  }
  EXPECT_OK(capacity.Enter(CallKind::kNamed, "ann"));
  capacity.Leave(CallKind::kOpen, "");
  EXPECT_OK(capacity.Enter(CallKind::kOpen, ""));
}

TEST(CallCapacityTest, PrincipalsHaveSeparateLimits) {
  CallCapacity capacity(kFew);
  for (int i = 0; i < 3; ++i) EXPECT_OK(capacity.Enter(CallKind::kNamed, "ann"));
  EXPECT_FAILS(capacity.Enter(CallKind::kNamed, "ann"), absl::StatusCode::kResourceExhausted,
               "ann has 3 calls");
  for (int i = 0; i < 2; ++i) EXPECT_OK(capacity.Enter(CallKind::kNamed, "bob"));
  EXPECT_FAILS(capacity.Enter(CallKind::kNamed, "cid"), absl::StatusCode::kResourceExhausted);
  capacity.Leave(CallKind::kNamed, "ann");
  EXPECT_OK(capacity.Enter(CallKind::kNamed, "cid"));
}

TEST(CallCapacityTest, OnePrincipalLeavesThreadsForOthers) {
  CallCapacity capacity(kFew);
  EXPECT_OK(capacity.Enter(CallKind::kBlocking, "ann"));
  EXPECT_FAILS(capacity.Enter(CallKind::kBlocking, "ann"), absl::StatusCode::kResourceExhausted,
               "ann has 1 calls");
  EXPECT_OK(capacity.Enter(CallKind::kNamed, "ann"));
  EXPECT_OK(capacity.Enter(CallKind::kBlocking, "bob"));
  capacity.Leave(CallKind::kBlocking, "ann");
  EXPECT_OK(capacity.Enter(CallKind::kBlocking, "ann"));
}

}  // namespace call_capacity_test
}  // namespace braid
