#include "control/launch/background_answer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace braid {
namespace background_answer_test {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(BackgroundAnswerTest, QueriesOnceWithinItsAge) {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  BackgroundAnswer<int> answer([asked] { return ++*asked; }, std::chrono::hours(1),
                               std::chrono::seconds(30));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(answer.Newest().value(), 1);
  answer.Forget();
  EXPECT_EQ(answer.Newest().value(), 2);
}

TEST(BackgroundAnswerTest, ReturnsTheLastResultWhileItRefreshes) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  const auto asked = std::make_shared<std::atomic<int>>(0);
  BackgroundAnswer<int> answer(
      [asked, released]() -> absl::StatusOr<int> {
        if (++*asked > 1) released.wait();
        return 7;
      },
      milliseconds(0), std::chrono::seconds(30));
  EXPECT_EQ(answer.Newest().value(), 7);
  const auto start = Clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(answer.Newest().value(), 7);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  EXPECT_LE(asked->load(), 2);
  release.set_value();
}

TEST(BackgroundAnswerTest, CallersWithoutAResultWaitOnlyOnce) {
  auto release = std::make_shared<std::promise<void>>();
  std::shared_future<void> released = release->get_future().share();
  BackgroundAnswer<int> answer(
      [released]() -> absl::StatusOr<int> {
        released.wait();
        return 7;
      },
      milliseconds(0), milliseconds(50));
  const auto start = Clock::now();
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(absl::IsUnavailable(answer.Newest().status()));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  // The result of an earlier query is discarded when it arrives.
  answer.Forget();
  release->set_value();
  while (!answer.Newest().ok()) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(answer.Newest().value(), 7);
}

TEST(BackgroundAnswerTest, AskNowIgnoresQueriesThatStartedBefore) {
  const auto release = std::make_shared<std::promise<void>>();
  const std::shared_future<void> released = release->get_future().share();
  const auto asked = std::make_shared<std::atomic<int>>(0);
  BackgroundAnswer<int> answer(
      [asked, released]() -> absl::StatusOr<int> {
        const int number = ++*asked;
        if (number == 2) released.wait();
        return number;
      },
      milliseconds(0), std::chrono::seconds(30));
  EXPECT_EQ(answer.Newest().value(), 1);
  while (asked->load() < 2) EXPECT_EQ(answer.Newest().value(), 1);
  EXPECT_EQ(answer.AskNow().value(), 3);
  release->set_value();
  EXPECT_GE(answer.Newest().value(), 3);
}

TEST(BackgroundAnswerTest, AskNowEndsWithoutAnAnswer) {
  const auto release = std::make_shared<std::promise<void>>();
  BackgroundAnswer<int> answer([released = release->get_future().share()]() -> absl::StatusOr<int> {
    released.wait();
    return 7;
  });
  EXPECT_TRUE(absl::IsUnavailable(answer.AskNow(milliseconds(50)).status()));
  release->set_value();
}

}  // namespace background_answer_test
}  // namespace braid
