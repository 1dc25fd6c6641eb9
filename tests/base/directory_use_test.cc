#include "base/directory_use.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <optional>

#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace directory_use_test {

namespace fs = std::filesystem;

class DirectoryUseTest : public ::testing::Test {
 protected:
  DirectoryUseTest() {
    fs::create_directories(home_ / "store/pack-1");
    fs::create_directories(home_ / "runs/run-000001/checkpoints/step-1");
  }
  bool CanReserve(const fs::path& path) const {
    return DirectoryUse::TryReserve(home_.path(), path).value().has_value();
  }

  ScratchDirectory home_;
  const fs::path pack_ = home_ / "store/pack-1";
};

TEST_F(DirectoryUseTest, NamesTheDirectoryThatContainsAPath) {
  const fs::path checkpoint = home_ / "runs/run-000001/checkpoints/step-1";
  fs::create_directory_symlink(home_.path(), home_ / "link");
  EXPECT_EQ(DirectoryInHome(home_.path(), pack_), "store/pack-1");
  EXPECT_EQ(DirectoryInHome(home_.path(), pack_ / ""), "store/pack-1");
  EXPECT_EQ(DirectoryInHome(home_.path(), checkpoint), "runs/run-000001");
  EXPECT_EQ(DirectoryInHome(home_.path(), home_ / "link/store/pack-1/x"), "store/pack-1");
  EXPECT_EQ(DirectoryInHome(home_ / "link", pack_), "store/pack-1");
  EXPECT_EQ(DirectoryInHome(home_.path(), home_ / "store/../runs/missing"), "runs/missing");
  for (const fs::path& outside : {fs::path(), fs::path("/"), fs::path("/etc/passwd"), home_.path(),
                                  home_ / "store", home_ / "jobs.sqlite", home_ / "runs/.."}) {
    EXPECT_EQ(DirectoryInHome(home_.path(), outside), "") << outside;
  }
}

TEST_F(DirectoryUseTest, ASharedDirectoryCannotBeReserved) {
  {
    const auto one = DirectoryUse::Share(home_.path(), pack_);
    const auto two = DirectoryUse::Share(home_.path(), pack_ / "dataset.json");
    ASSERT_OK(one);
    ASSERT_OK(two);
    EXPECT_FALSE(CanReserve(pack_));
    EXPECT_TRUE(CanReserve(home_ / "runs/run-000001")) << "another directory";
  }
  EXPECT_TRUE(CanReserve(pack_));
}

TEST_F(DirectoryUseTest, SharingWaitsForTheEndOfAReservation) {
  std::optional<DirectoryUse> reserved = *DirectoryUse::TryReserve(home_.path(), pack_);
  ASSERT_TRUE(reserved);
  EXPECT_FALSE(CanReserve(pack_));
  std::future<bool> shared =
      std::async(std::launch::async, [&] { return DirectoryUse::Share(home_.path(), pack_).ok(); });
  EXPECT_EQ(shared.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  reserved.reset();
  EXPECT_TRUE(shared.get());
}

TEST_F(DirectoryUseTest, AKilledProcessUsesNothing) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto use = DirectoryUse::Share(home_.path(), pack_);
    const char done = use.ok() ? 'y' : 'n';
    if (::write(ready[1], &done, 1) != 1) _exit(1);
    while (true) pause();
  }
  char done = 0;
  ASSERT_EQ(read(ready[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  EXPECT_FALSE(CanReserve(pack_));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(CanReserve(pack_));
  close(ready[0]);
  close(ready[1]);
}

TEST_F(DirectoryUseTest, PathsElsewhereAndMissingHomesLockNothing) {
  EXPECT_OK(DirectoryUse::Share(home_.path(), "/etc/passwd"));
  EXPECT_FALSE(fs::exists(home_ / "uses.lock"));
  EXPECT_OK(DirectoryUse::Share(home_ / "missing", home_ / "missing/store/x"));
  EXPECT_FALSE(fs::exists(home_ / "missing"));
}

}  // namespace directory_use_test
}  // namespace braid
