#include "base/staged_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace staged_output_test {

using absl::StatusCode;
using testing::ElementsAre;
using testing::SizeIs;

std::set<std::string> NamesIn(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.insert(entry.path().filename());
  }
  return names;
}

// A process that has a staging directory for a path until it is killed.
class StagingProcess {
 public:
  explicit StagingProcess(const std::filesystem::path& path) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    child_ = fork();
    if (child_ == 0) {
      const auto staging = StagingDirectory::Create(path);
      if (staging.ok()) PutFile((*staging)->path() / "half", "content");
      if (write(ready[1], "x", 1) == 1) pause();
      _exit(1);
    }
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~StagingProcess() { Kill(); }

  void Kill() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  pid_t child_ = 0;
};

TEST(StagingDirectoryTest, LiesHiddenBesideThePathAndIsRemovedAtTheEnd) {
  const ScratchDirectory scratch;
  {
    ASSERT_OK_AND_ASSIGN(const auto staging, StagingDirectory::Create(scratch / "out"));
    PutFile(staging->path() / "x", "content");
    ASSERT_THAT(NamesIn(scratch.path()), SizeIs(1));
    EXPECT_TRUE(NamesIn(scratch.path()).begin()->starts_with(".out.braid-"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(StagingDirectoryTest, RemovesWhatKilledProcessesLeft) {
  const ScratchDirectory scratch;
  StagingProcess process(scratch / "out");
  ASSERT_OK(StagingDirectory::Create(scratch / "out").status());
  EXPECT_THAT(NamesIn(scratch.path()), SizeIs(1)) << "the process lives";
  process.Kill();
  ASSERT_OK(StagingDirectory::Create(scratch / "other").status());
  EXPECT_THAT(NamesIn(scratch.path()), SizeIs(1)) << "it was for another path";
  ASSERT_OK(StagingDirectory::Create(scratch / "out").status());
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

// A process can also be killed between creating its directory and the lock in it.
TEST(StagingDirectoryTest, RemovesADirectoryWithoutALock) {
  const ScratchDirectory scratch;
  std::filesystem::create_directory(scratch / ".out.braid-0123456789abcdef");
  ASSERT_OK(StagingDirectory::Create(scratch / "out").status());
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(StagingDirectoryTest, KeepsFilesOfTheUser) {
  const ScratchDirectory scratch;
  const std::set<std::string> names = {
      "out.tmp",        "out.old.tmp", ".out.tmp", ".out.braid-mine", ".out.braid-0123456789abcde",
      ".out.braid-file"};
  for (const std::string& name : names) PutFile(scratch / name, "precious");
  PutFile(scratch / ".out.braid-0123456789abcdef", "a file, not a directory");
  ASSERT_OK(StagingDirectory::Create(scratch / "out").status());
  for (const std::string& name : names) EXPECT_EQ(GetFile(scratch / name), "precious") << name;
  EXPECT_TRUE(std::filesystem::exists(scratch / ".out.braid-0123456789abcdef"));
}

TEST(StagingDirectoryTest, TakesNamesOfAnyLength) {
  const ScratchDirectory scratch;
  EXPECT_OK(StagingDirectory::Create(scratch / std::string(255, 'x')).status());
}

TEST(StagingDirectoryTest, AdmitsManyWritersAtOnce) {
  const ScratchDirectory scratch;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        ASSERT_OK_AND_ASSIGN(const auto staging, StagingDirectory::Create(scratch / "out"));
        PutFile(staging->path() / "x", "content");
        EXPECT_EQ(GetFile(staging->path() / "x"), "content");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(StagingDirectoryTest, ReportsADirectoryThatDoesNotExist) {
  EXPECT_FAILS(StagingDirectory::Create("/absent/out"), StatusCode::kNotFound,
               "cannot create /absent/out: No such file");
}

TEST(UserFileTest, ReplacesOnlyTheFileAtItsPath) {
  const ScratchDirectory scratch;
  PutFile(scratch / "report.html", "old");
  PutFile(scratch / "report.html.tmp", "precious");
  ASSERT_OK(WriteUserFile(scratch / "report.html", "new"));
  EXPECT_EQ(GetFile(scratch / "report.html"), "new");
  EXPECT_EQ(GetFile(scratch / "report.html.tmp"), "precious");
  EXPECT_THAT(NamesIn(scratch.path()), ElementsAre("report.html", "report.html.tmp"));
}

TEST(UserFileTest, AppearsOnlyWhenCommitted) {
  const ScratchDirectory scratch;
  {
    ASSERT_OK_AND_ASSIGN(const auto file, UserFile::Create(scratch / "x"));
    ASSERT_OK(file->Append("half"));
    EXPECT_EQ(file->size(), 4);
    EXPECT_FALSE(std::filesystem::exists(scratch / "x"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(UserFileTest, RefusesToReplaceADeviceOrADirectory) {
  const ScratchDirectory scratch;
  std::filesystem::create_symlink("/dev/null", scratch / "link");
  for (const std::filesystem::path& path : {scratch / "link", scratch.path()}) {
    EXPECT_FAILS(WriteUserFile(path, "x"), StatusCode::kInvalidArgument, path.string(),
                 "expected a regular file");
  }
  EXPECT_THAT(NamesIn(scratch.path()), ElementsAre("link"));
}

}  // namespace staged_output_test
}  // namespace braid
