#include "trainer/parallel/background_task.h"

#include <stdexcept>
#include <thread>

#include "gtest/gtest.h"

namespace braid {
namespace background_task_test {

TEST(BackgroundTaskTest, WaitReturnsTheResultOnce) {
  BackgroundTask task;
  EXPECT_TRUE(task.finished());
  EXPECT_TRUE(task.Wait().ok());
  task.Start([](const std::stop_token&) { return absl::DataLossError("lost"); });
  EXPECT_EQ(task.Wait(), absl::DataLossError("lost"));
  EXPECT_TRUE(task.finished());
  EXPECT_TRUE(task.Wait().ok());
}

TEST(BackgroundTaskTest, StartsAgain) {
  BackgroundTask task;
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    task.Start([&done](const std::stop_token&) {
      ++done;
      return absl::OkStatus();
    });
    EXPECT_TRUE(task.Wait().ok());
  }
  EXPECT_EQ(done, 3);
}

TEST(BackgroundTaskTest, AnExceptionIsAnError) {
  BackgroundTask task;
  task.Start([](const std::stop_token&) -> absl::Status { throw std::runtime_error("no memory"); });
  EXPECT_EQ(task.Wait(), absl::InternalError("no memory"));
}

TEST(BackgroundTaskTest, TheDestructorStopsTheWork) {
  bool stopped = false;
  {
    BackgroundTask task;
    task.Start([&stopped](const std::stop_token& stop) {
      while (!stop.stop_requested()) std::this_thread::yield();
      stopped = true;
      return absl::OkStatus();
    });
  }
  EXPECT_TRUE(stopped);
}

}  // namespace background_task_test
}  // namespace braid
