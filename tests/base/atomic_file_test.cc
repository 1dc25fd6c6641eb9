#include "base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <random>
#include <string>

#include "base/crc32c.h"
#include "base/file_error.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace atomic_file_test {

using absl::StatusCode;

// Returns the exit status of `body`, run in a separate process.
int RunInChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

constexpr int kCannotMount = 77;

// Writes `bytes` bytes to directory/x. Returns 0 if that ends in RESOURCE_EXHAUSTED naming the file
// and leaves no file.
int WriteUntilFull(const std::filesystem::path& directory, size_t bytes, const char* reason) {
  absl::Status status = WriteFileAtomically(directory / "x", std::string(bytes, 'a'));
  if (!Fails(status, StatusCode::kResourceExhausted, "x.tmp", reason)) return 1;
  return std::filesystem::is_empty(directory) ? 0 : 2;
}

TEST(AtomicFileTest, AppearsOnlyWhenCommitted) {
  ScratchDirectory scratch;
  ASSERT_OK_AND_ASSIGN(auto file, AtomicFile::Create(scratch / "x"));
  ASSERT_OK(file->Append("hello "));
  ASSERT_OK(file->Append("world"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "x"));
  ASSERT_OK_AND_ASSIGN(FileSummary summary, file->Commit());
  EXPECT_EQ(GetFile(scratch / "x"), "hello world");
  EXPECT_FALSE(std::filesystem::exists(scratch / "x.tmp"));
  EXPECT_EQ(summary.name, "x");
  EXPECT_EQ(summary.bytes, 11);
  EXPECT_EQ(summary.crc32c, Crc32c("hello world"));
  EXPECT_FAILS(file->Commit(), StatusCode::kFailedPrecondition, "already committed");
}

TEST(AtomicFileTest, DiscardedWriteLeavesTheOldFileUntouched) {
  ScratchDirectory scratch;
  PutFile(scratch / "x", "old");
  {
    ASSERT_OK_AND_ASSIGN(auto file, AtomicFile::Create(scratch / "x"));
    ASSERT_OK(file->Append(std::string(1 << 20, 'n')));
  }
  EXPECT_EQ(GetFile(scratch / "x"), "old");
  EXPECT_FALSE(std::filesystem::exists(scratch / "x.tmp"));
}

TEST(AtomicFileTest, KilledWriterLeavesTheOldFileAndCanBeRepeated) {
  ScratchDirectory scratch;
  PutFile(scratch / "x", "old");
  const int status = RunInChild([&] {
    auto file = AtomicFile::Create(scratch / "x");
    if (!file.ok() || !(*file)->Append(std::string(1 << 20, 'n')).ok()) return 1;
    raise(SIGKILL);
    return 2;
  });
  ASSERT_EQ(status, 128 + SIGKILL);
  EXPECT_EQ(GetFile(scratch / "x"), "old");
  EXPECT_EQ(std::filesystem::file_size(scratch / "x.tmp"), 1u << 20);
  ASSERT_OK(WriteFileAtomically(scratch / "x", "new"));
  EXPECT_EQ(GetFile(scratch / "x"), "new");
  EXPECT_FALSE(std::filesystem::exists(scratch / "x.tmp"));
}

TEST(AtomicFileTest, AnOpenReaderKeepsTheOldContent) {
  ScratchDirectory scratch;
  PutFile(scratch / "x", "old");
  std::ifstream reader(scratch / "x");
  ASSERT_OK(WriteFileAtomically(scratch / "x", "new", Durability::kRenamed));
  std::string seen;
  reader >> seen;
  EXPECT_EQ(seen, "old");
  EXPECT_EQ(GetFile(scratch / "x"), "new");
}

TEST(AtomicFileTest, RandomEditsMatchAStringAndItsCrc) {
  ScratchDirectory scratch;
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    ASSERT_OK_AND_ASSIGN(auto file, AtomicFile::Create(scratch / "x", Durability::kRenamed));
    std::string expected;
    for (int i = 0; i < 30; ++i) {
      std::string data(random() % (i % 7 == 0 ? 600000 : 300), static_cast<char>(random()));
      if (const int action = random() % 3; action == 0) {
        ASSERT_OK(file->Append(data));
        expected += data;
      } else if (action == 1) {
        ASSERT_OK(file->Extend(static_cast<int64_t>(data.size())));
        expected.append(data.size(), '\0');
      } else {
        data.resize(std::min(data.size(), expected.size()));
        const size_t offset = random() % (expected.size() - data.size() + 1);
        ASSERT_OK(file->Overwrite(static_cast<int64_t>(offset), data));
        expected.replace(offset, data.size(), data);
      }
      ASSERT_EQ(file->size(), static_cast<int64_t>(expected.size()));
    }
    ASSERT_OK_AND_ASSIGN(FileSummary summary, file->Commit());
    ASSERT_TRUE(GetFile(scratch / "x") == expected) << round;
    ASSERT_EQ(summary.crc32c, Crc32c(expected)) << round;
    ASSERT_OK_AND_ASSIGN(FileSummary reread, SummarizeFile(scratch / "x"));
    ASSERT_EQ(reread.crc32c, summary.crc32c);
    ASSERT_EQ(reread.bytes, summary.bytes);
  }
}

TEST(AtomicFileTest, RefusesToOverwriteBeyondTheEndAndThenToCommit) {
  ScratchDirectory scratch;
  ASSERT_OK_AND_ASSIGN(auto file, AtomicFile::Create(scratch / "x"));
  ASSERT_OK(file->Append("abc"));
  EXPECT_FAILS(file->Overwrite(1, "1234"), StatusCode::kOutOfRange, "4 bytes at byte 1", "3 bytes");
  EXPECT_FAILS(file->Commit(), StatusCode::kOutOfRange, "4 bytes at byte 1");
  EXPECT_FALSE(std::filesystem::exists(scratch / "x"));
}

// Root would otherwise replace /dev/full, or /dev/stdout, by a file.
TEST(AtomicFileTest, RefusesToReplaceADeviceAPipeOrADirectory) {
  const ScratchDirectory scratch;
  ASSERT_EQ(mkfifo((scratch / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", scratch / "link");
  std::filesystem::create_directory(scratch / "directory");
  for (const char* name : {"pipe", "link", "directory"}) {
    EXPECT_FAILS(WriteFileAtomically(scratch / name, "x"), StatusCode::kInvalidArgument, name,
                 "regular file");
    EXPECT_FALSE(std::filesystem::exists(scratch / (std::string(name) + ".tmp")));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(scratch / "pipe"));
  EXPECT_TRUE(std::filesystem::is_symlink(scratch / "link"));
}

TEST(AtomicFileTest, ReportsAMissingDirectory) {
  ScratchDirectory scratch;
  EXPECT_FAILS(AtomicFile::Create(scratch / "absent/x"), StatusCode::kNotFound, "absent/x.tmp",
               "No such file or directory");
}

TEST(AtomicFileTest, ReportsTheFileSizeLimit) {
  ScratchDirectory scratch;
  const int status = RunInChild([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000, 1000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 3;
    return WriteUntilFull(scratch.path(), 100000, "File too large");
  });
  EXPECT_EQ(status, 0);
}

TEST(AtomicFileTest, ReportsAFullDisk) {
  ScratchDirectory scratch;
  const int status = RunInChild([&] {
    const bool root = geteuid() == 0;
    if (unshare(CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER)) != 0) return kCannotMount;
    mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (mount("tmpfs", scratch.path().c_str(), "tmpfs", 0, "size=64k") != 0) return kCannotMount;
    if (int fault = WriteUntilFull(scratch.path(), 1 << 20, "No space left"); fault) return fault;
    auto file = AtomicFile::Create(scratch / "x");  // reserving space fails too
    if (!file.ok()) return 4;
    return Fails((*file)->Extend(1 << 20), StatusCode::kResourceExhausted, "No space left") ? 0 : 5;
  });
  if (status == kCannotMount) GTEST_SKIP() << "may not mount a small file system here";
  EXPECT_EQ(status, 0);
}

TEST(FileErrorTest, MapsErrorNumbers) {
  EXPECT_FAILS(SystemError("write", "/a/b", ENOSPC), StatusCode::kResourceExhausted, "write /a/b",
               "No space left on device", "errno 28", "Free space");
  EXPECT_FAILS(SystemError("write", "/a", EACCES), StatusCode::kPermissionDenied, "permissions");
  EXPECT_FAILS(SystemError("write", "/a", EROFS), StatusCode::kPermissionDenied, "/a");
  EXPECT_FAILS(SystemError("open", "/a", ENOENT), StatusCode::kNotFound, "/a");
  EXPECT_FAILS(SystemError("read", "/a", EIO), StatusCode::kDataLoss, "/a");
}

TEST(ReadFileTest, ReturnsAnyBytesAndReportsAMissingFile) {
  ScratchDirectory scratch;
  const std::string bytes = std::string(3 << 20, '\0') + "end";
  PutFile(scratch / "x", bytes);
  ASSERT_OK_AND_ASSIGN(std::string read, ReadFile(scratch / "x"));
  EXPECT_TRUE(read == bytes);
  EXPECT_FAILS(ReadFile(scratch / "y"), StatusCode::kNotFound, (scratch / "y").string());
  EXPECT_FAILS(ReadFile(scratch.path()), StatusCode::kInvalidArgument, "directory");
}

TEST(MakeDirectoriesTest, CreatesParentsAndAcceptsExisting) {
  ScratchDirectory scratch;
  EXPECT_OK(MakeDirectories(scratch / "a/b/c/"));
  EXPECT_OK(MakeDirectories(scratch / "a/b/c"));
  EXPECT_TRUE(std::filesystem::is_directory(scratch / "a/b/c"));
  PutFile(scratch / "file", "");
  EXPECT_FALSE(MakeDirectories(scratch / "file").ok());
  EXPECT_FAILS(MakeDirectories(scratch / "file/below"), StatusCode::kAlreadyExists, "file");
}

TEST(RemoveTreeTest, RemovesFilesAndDirectoriesAndAcceptsMissing) {
  ScratchDirectory scratch;
  ASSERT_OK(MakeDirectories(scratch / "a/b"));
  PutFile(scratch / "a/b/file", "content");
  PutFile(scratch / "other", "");
  std::filesystem::create_symlink(scratch / "other", scratch / "a/link");
  EXPECT_OK(RemoveTree(scratch / "a"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "a"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "other"));
  EXPECT_OK(RemoveTree(scratch / "other"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "other"));
  EXPECT_OK(RemoveTree(scratch / "a"));
  EXPECT_FAILS(RemoveTree("/proc/self/status"), StatusCode::kPermissionDenied, "/proc/self/status");
}

TEST(PublishDirectoryTest, MovesTheTreeAndRefusesToReplaceOne) {
  ScratchDirectory scratch;
  ASSERT_OK(MakeDirectories(scratch / "x.tmp/below"));
  PutFile(scratch / "x.tmp/below/file", "content");
  ASSERT_OK(PublishDirectory(scratch / "x.tmp/", scratch / "x"));
  EXPECT_EQ(GetFile(scratch / "x/below/file"), "content");
  EXPECT_FALSE(std::filesystem::exists(scratch / "x.tmp"));

  ASSERT_OK(MakeDirectories(scratch / "x.tmp"));
  EXPECT_FAILS(PublishDirectory(scratch / "x.tmp", scratch / "x"), StatusCode::kAlreadyExists, "x");
  EXPECT_EQ(GetFile(scratch / "x/below/file"), "content");
  EXPECT_TRUE(std::filesystem::exists(scratch / "x.tmp"));
}

}  // namespace atomic_file_test
}  // namespace braid
