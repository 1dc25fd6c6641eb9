// Deletions on a full file system, which is a small one in a mount namespace of its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "control/run_store.h"
#include "pipeline/jobs/job_store.h"
#include "server/retention/disk_reserve.h"
#include "server/retention/home_deletion.h"
#include "tests/base/status_matchers.h"
#include "tests/server/retention/stored_home.h"

namespace braid {
namespace full_disk_test {

constexpr int kCannotMountHome = 77;

// Writes a file until the file system is full.
void FillDisk(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(64 << 10, 'x');
  for (size_t bytes = block.size(); bytes > 0;) {
    if (write(descriptor, block.data(), bytes) < 0) bytes /= 2;
  }
  close(descriptor);
}

bool IsFullDiskError(const absl::Status& status) {
  return static_cast<bool>(Fails(status, absl::StatusCode::kResourceExhausted,
                                 "the file system of ", "is full", "braid delete"));
}

class FullDiskTest : public testing::Test {
 protected:
  // Runs `body` in a child process in which the home is on a file system of 24 MiB. `body` returns
  // 0, or the number of the check that failed.
  void InSmallFileSystem(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      const bool root = geteuid() == 0;
      if (unshare(CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER)) != 0) _exit(kCannotMountHome);
      mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
      const bool mounted = mount("tmpfs", home_.path().c_str(), "tmpfs", 0, "size=24m") == 0;
      _exit(mounted ? body() : kCannotMountHome);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == kCannotMountHome) GTEST_SKIP() << "cannot mount";
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the check that failed";
  }

  StoredHome home_;
};

TEST_F(FullDiskTest, DeletionsUseTheReserveAndMakeItAgain) {
  InSmallFileSystem([&] {
    const std::string run = home_.AddRun(), job = home_.AddJob();
    KeepDiskReserve(home_.path());
    if (!home_.Has("reserve")) return 1;
    FillDisk(home_ / "filler");
    {
      const auto deletion = HomeDeletion::Open(home_.path());
      if (!deletion.ok()) return 2;
      if ((*deletion)->Delete(run, {.by = "ann"}).value_or(0) < 20000) return 3;
    }
    if (!home_.Has("reserve")) return 4;
    FillDisk(home_ / "filler 2");
    {
      const auto deletion = HomeDeletion::Open(home_.path());
      if (!deletion.ok() || !(*deletion)->Delete(job, {.by = "ann"}).ok()) return 5;
    }
    return home_.Directories().empty() ? 0 : 6;
  });
}

TEST_F(FullDiskTest, ErrorsNameTheFullFileSystemAndWhatToDo) {
  InSmallFileSystem([&] {
    home_.AddRun();
    home_.AddJob();
    FillDisk(home_ / "filler");
    // SQLite reports an input/output error here, since it cannot create its shared memory.
    if (!IsFullDiskError(JobStore::Open(home_.path()).status())) return 1;
    if (!IsFullDiskError(JobDeletions::Open(home_.path()).status())) return 2;
    if (!IsFullDiskError(RunStore::Open(home_.path()).status())) return 3;
    std::filesystem::remove(home_ / "filler");
    const auto jobs = JobStore::Open(home_.path());
    const auto runs = RunStore::Open(home_.path());
    if (!jobs.ok() || !runs.ok()) return 4;
    FillDisk(home_ / "filler");
    const std::string bytes(64 << 10, 'x');
    v1::CorpusSpec spec;
    spec.set_name(bytes);
    if (!IsFullDiskError((*jobs)->Submit(spec, "request").status())) return 5;
    return IsFullDiskError((*runs)->Create("", bytes, 0).status()) ? 0 : 6;
  });
}

TEST_F(FullDiskTest, NoReserveIsMadeWhereLittleSpaceIsFree) {
  InSmallFileSystem([&] {
    PutFile(home_ / "filler", std::string(10 << 20, 'x'));
    KeepDiskReserve(home_.path());
    if (home_.Has("reserve")) return 1;
    std::filesystem::remove(home_ / "filler");
    KeepDiskReserve(home_.path());
    return std::filesystem::file_size(home_ / "reserve") == kReserveBytes ? 0 : 2;
  });
}

}  // namespace full_disk_test
}  // namespace braid
