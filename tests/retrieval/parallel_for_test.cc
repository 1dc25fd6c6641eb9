#include "retrieval/parallel_for.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace braid {
namespace parallel_for_test {

class ParallelForTest : public testing::Test {
 protected:
  ~ParallelForTest() override { SetRetrievalThreads(0); }
};

TEST_F(ParallelForTest, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 5}) {
    SetRetrievalThreads(threads);
    for (int64_t n : {0, 1, 7, 100}) {
      std::vector<int> visits(n);
      ASSERT_TRUE(ParallelForUntil(n, 3, nullptr, [&](int64_t begin, int64_t end, const auto&) {
                    for (int64_t i = begin; i < end; ++i) ++visits[i];
                  }).ok());
      EXPECT_EQ(visits, std::vector<int>(n, 1));
    }
  }
}

TEST_F(ParallelForTest, ReturnsTheErrorOfTheCheckAndStopsTheBody) {
  SetRetrievalThreads(2);
  int asked = 0;
  const auto check = [&] {
    return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("enough");
  };
  const absl::Status status =
      ParallelForUntil(1000, 1, check, [](int64_t, int64_t, const std::atomic<bool>& stopping) {
        while (!stopping) {
        }
      });
  EXPECT_TRUE(absl::IsCancelled(status));
}

TEST_F(ParallelForTest, RethrowsExceptionsOfTheBody) {
  SetRetrievalThreads(2);
  EXPECT_THROW(
      (void)ParallelForUntil(10, 1, nullptr,
                             [](int64_t, int64_t, const auto&) { throw std::runtime_error("x"); }),
      std::runtime_error);
  for (const int threads : {1, 2, 5}) {
    SetRetrievalThreads(threads);
    std::atomic<int> num_calls{0};
    EXPECT_THROW(ParallelFor(1'000'000, 1,
                             [&](int64_t begin, int64_t) {
                               ++num_calls;
                               if (begin % 7 == 3) throw std::runtime_error("x");
                             }),
                 std::runtime_error);
    EXPECT_LT(num_calls, 1'000'000);
  }
}

}  // namespace parallel_for_test
}  // namespace braid
