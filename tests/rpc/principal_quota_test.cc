#include "rpc/principal_quota.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/base/status_matchers.h"

namespace braid {
namespace principal_quota_test {

TEST(PrincipalQuotaTest, CountsEachPrincipalSeparately) {
  PrincipalQuota quota("things", 2, "wait");
  std::vector<PrincipalQuota::Place> places;
  for (const char* who : {"ann", "bob", "ann"}) {
    auto place = quota.Take(who);
    ASSERT_OK(place);
    places.push_back(*std::move(place));
  }
  EXPECT_FAILS(quota.Take("ann"), absl::StatusCode::kResourceExhausted, "things of ann",
               "2 are open", "limit is 2", "wait");
  // The temporary place is released at the end of each statement.
  EXPECT_OK(quota.Take("bob"));
  EXPECT_OK(quota.Take("bob"));
  places.clear();
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(PrincipalQuota::Place place, quota.Take("ann"));
    places.push_back(std::move(place));
  }
  EXPECT_FAILS(quota.Take("ann"), absl::StatusCode::kResourceExhausted);
}

TEST(PrincipalQuotaTest, ZeroMeansNoLimit) {
  PrincipalQuota quota("things", 0, "");
  std::vector<PrincipalQuota::Place> places;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_OK_AND_ASSIGN(PrincipalQuota::Place place, quota.Take("ann"));
    places.push_back(std::move(place));
  }
}

TEST(PrincipalQuotaTest, PlacesMayOutliveTheQuota) {
  auto quota = std::make_unique<PrincipalQuota>("things", 1, "");
  {
    ASSERT_OK_AND_ASSIGN(const PrincipalQuota::Place place, quota->Take("ann"));
    EXPECT_FAILS(quota->Take("ann"), absl::StatusCode::kResourceExhausted);
    quota.reset();
    EXPECT_EQ(quota, nullptr);
  }  // Releases the place of a quota that no longer exists.
}

}  // namespace principal_quota_test
}  // namespace braid
