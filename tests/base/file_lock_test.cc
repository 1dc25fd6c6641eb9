#include "base/file_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "tests/base/scratch_directory.h"

namespace braid {
namespace file_lock_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FileLockTest : public ::testing::Test {
 protected:
  std::optional<FileLock> Try() const { return FileLock::TryTake(path_).value(); }

  ScratchDirectory directory_;
  const std::filesystem::path path_ = directory_.path() / "lock";
};

TEST_F(FileLockTest, HasOneHolderUntilTheEndOfItsScope) {
  {
    const std::optional<FileLock> lock = Try();
    ASSERT_TRUE(lock);
    EXPECT_FALSE(Try());
  }
  EXPECT_TRUE(Try());
}

TEST_F(FileLockTest, MovesWithItsHolder) {
  std::optional<FileLock> lock = Try();
  std::optional<FileLock> other(*std::move(lock));
  lock.reset();
  EXPECT_FALSE(Try());
  other.reset();
  EXPECT_TRUE(Try());
}

TEST_F(FileLockTest, TakeWaitsForOtherHolders) {
  int inside = 0, most = 0;  // threads that hold the lock
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const FileLock lock = FileLock::Take(path_).value();
      most = std::max(most, ++inside);
      std::this_thread::yield();
      --inside;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

TEST_F(FileLockTest, AKilledProcessReleasesIt) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = FileLock::Take(path_);
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(1);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_FALSE(Try());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(Try());
  close(ready[0]);
  close(ready[1]);
}

TEST_F(FileLockTest, StartedProgramsDoNotInheritIt) {
  std::optional<FileLock> lock = Try();
  ASSERT_TRUE(lock);
  const pid_t child = fork();
  if (child == 0) {
    execlp("sleep", "sleep", "60", nullptr);
    _exit(127);
  }
  lock.reset();
  // The copy of the descriptor holds the lock until exec closes it.
  bool is_free = false;
  for (int tries = 0; tries < 500 && !is_free; ++tries) {
    is_free = Try().has_value();
    usleep(10'000);
  }
  EXPECT_TRUE(is_free);
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the program had ended, and with it any lock of its own";
}

TEST_F(FileLockTest, ReportsWhyItCannotBeOpened) {
  const auto missing = FileLock::TryTake(directory_.path() / "no" / "lock");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  std::filesystem::create_symlink("elsewhere", path_);
  EXPECT_FALSE(FileLock::Take(path_).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "elsewhere"));
}

// Locks with $BRAID_STATE.
class SubstituteLockTest : public FileLockTest {
 protected:
  SubstituteLockTest() { setenv("BRAID_STATE", state_.c_str(), 1); }
  ~SubstituteLockTest() override { unsetenv("BRAID_STATE"); }

  // Returns the first locked byte of the substitute, or -1.
  int64_t LockedByte() const {
    const int descriptor = open((state_ / "locks").c_str(), O_RDWR | O_CLOEXEC);
    struct flock range = {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    EXPECT_EQ(fcntl(descriptor, F_OFD_GETLK, &range), 0);
    close(descriptor);
    return range.l_type == F_UNLCK ? -1 : range.l_start;
  }

  const std::filesystem::path state_ = directory_.path() / "state";
};

// A process to which the file system reports no locks, for a moment, has only the substitute.
TEST_F(SubstituteLockTest, IsHeldWithTheLockOfTheFile) {
  {
    const std::optional<FileLock> lock = Try();
    ASSERT_TRUE(lock);
    EXPECT_GE(LockedByte(), 0);
    EXPECT_FALSE(Try());
    unsetenv("BRAID_STATE");
    EXPECT_FALSE(Try()) << "the file is locked, too";
    setenv("BRAID_STATE", state_.c_str(), 1);
  }
  EXPECT_EQ(LockedByte(), -1);
  EXPECT_TRUE(Try());
}

TEST_F(SubstituteLockTest, IsReleasedIfTheFileIsLockedByAnother) {
  unsetenv("BRAID_STATE");
  const std::optional<FileLock> lock = Try();
  setenv("BRAID_STATE", state_.c_str(), 1);
  EXPECT_FALSE(Try());
  EXPECT_EQ(LockedByte(), -1);
}

TEST_F(SubstituteLockTest, IsTheSameForAllNamesOfAFile) {
  const auto byte_of = [&](const std::filesystem::path& path) {
    const FileLock lock = FileLock::Take(path).value();
    return LockedByte();
  };
  const int64_t byte = byte_of(path_);
  std::filesystem::create_hard_link(path_, directory_.path() / "other name");
  EXPECT_EQ(byte_of(directory_.path() / "other name"), byte);
  EXPECT_NE(byte_of(directory_.path() / "other file"), byte);
}

TEST_F(SubstituteLockTest, IsPrivateToItsUser) {
  ASSERT_TRUE(Try());
  EXPECT_EQ(std::filesystem::status(state_ / "locks").permissions(), std::filesystem::perms(0600));
}

TEST_F(SubstituteLockTest, ReportsAStateThatCannotBeUsed) {
  std::ofstream(state_) << "a file";
  EXPECT_THAT(FileLock::TryTake(path_).status().message(),
              AllOf(HasSubstr(state_.string()), HasSubstr("Not a directory")));
  std::filesystem::remove(state_);
  std::filesystem::create_directories(state_ / "locks");
  EXPECT_THAT(FileLock::Take(path_).status().message(),
              AllOf(HasSubstr((state_ / "locks").string()), HasSubstr("Is a directory")));
}

}  // namespace file_lock_test
}  // namespace braid
