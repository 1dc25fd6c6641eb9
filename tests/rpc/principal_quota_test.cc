#include "rpc/principal_quota.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/base/status_matchers.h"

namespace braid {
namespace principal_quota_test {

TEST(PrincipalQuotaTest, CountsEachPrincipalForItself) {
  PrincipalQuota quota("things", 2, "wait");
  std::vector<PrincipalQuota::Place> places;
  for (const char* who : {"ann", "bob", "ann"}) {
    auto place = quota.Take(who);
    ASSERT_OK(place);
    places.push_back(*std::move(place));
  }
  EXPECT_FAILS(quota.Take("ann"), absl::StatusCode::kResourceExhausted, "things of ann",
               "2 are open", "limit is 2", "wait");
  EXPECT_OK(quota.Take("bob"));  // given back at once
  EXPECT_OK(quota.Take("bob"));
  places.clear();
  for (int i = 0; i < 2; ++i) places.push_back(*quota.Take("ann"));
  EXPECT_FAILS(quota.Take("ann"), absl::StatusCode::kResourceExhausted);
}

TEST(PrincipalQuotaTest, WithoutALimitGivesWhateverIsAsked) {
  PrincipalQuota quota("things", 0, "");
  std::vector<PrincipalQuota::Place> places;
  for (int i = 0; i < 1000; ++i) places.push_back(*quota.Take("ann"));
}

TEST(PrincipalQuotaTest, APlaceMayOutliveIt) {
  auto quota = std::make_unique<PrincipalQuota>("things", 1, "");
  const PrincipalQuota::Place place = *quota->Take("ann");
  quota.reset();
}

}  // namespace principal_quota_test
}  // namespace braid
