// Jobs whose file system fails: they report the cause and, once it is fixed, resume to the same
// bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "pipeline/corpus/corpus_reader.h"
#include "tests/pipeline/jobs/faulty_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"
#include "tests/pipeline/jobs/uninterrupted_job_test.h"

namespace braid {
namespace disk_fault_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// The error of every pread, if it is not 0.
int g_pread_error = 0;

// Replaces the function of the C library in the whole program.
extern "C" ssize_t pread(int descriptor, void* data, size_t size, off_t offset) {
  if (g_pread_error != 0) {
    errno = g_pread_error;
    return -1;
  }
  return syscall(SYS_pread64, descriptor, data, size, offset);
}

class DiskFaultTest : public UninterruptedJobTest {
 protected:
  JobOutcome Run(
      const JobFault& fault = {}, const std::function<void()>& prepare = [] {}) const {
    return RunJobInChild(home_, SmallSpec(*corpus_), kChunkBytes, fault, prepare);
  }

  // Runs the job without the fault.
  void ExpectSameBytes() const {
    const JobOutcome outcome = Run();
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    ASSERT_TRUE(StoreContents(home_) == *contents_);
  }

  // Returns the number of the n-th call of that name.
  static int64_t CallNumber(const std::string& name, int n) {
    for (size_t i = 0; i < whole_->calls.size(); ++i) {
      if (whole_->calls[i] == name && --n == 0) return static_cast<int64_t>(i) + 1;
    }
    ADD_FAILURE() << "no call " << name;
    return 0;
  }

  const fs::path home_ = NewDirectory();
};

TEST_F(DiskFaultTest, ResumesWhereTheDiskBecameFull) {
  for (const char* call :
       {"fsync ingest.tmp/texts.bin.tmp", "pwrite tokenize.tmp/tokens.lengths.tmp",
        "rename embed.tmp/resume.json", "pwrite embed.tmp/embeddings.npy.tmp",
        "pwrite pack.tmp/instances.bin.tmp"}) {
    const JobOutcome full = Run({.call = CallNumber(call, 3), .error = ENOSPC});
    const std::string stage = StageOfCall(call);
    EXPECT_TRUE(absl::IsResourceExhausted(full.status)) << full.status;
    EXPECT_THAT(std::string(full.status.message()),
                AllOf(HasSubstr(stage + ": "), HasSubstr((home_ / "store").string()),
                      HasSubstr("No space left on device"), HasSubstr("Free space")));
    const JobOutcome resumed = Run({.call = 1, .error = ENOSPC});
    EXPECT_TRUE(absl::IsResourceExhausted(resumed.status)) << "still full";
    const JobOutcome mended = Run();
    ASSERT_TRUE(mended.status.ok()) << mended.status;
    EXPECT_LT(mended.calls.size(), whole_->calls.size() - 10) << "the first attempt saved nothing";
    ASSERT_TRUE(StoreContents(home_) == *contents_);
    fs::remove_all(home_ / "store");
  }
}

TEST_F(DiskFaultTest, ReportsErrorsThatCannotBeRetried) {
  for (const auto& [error, text] :
       {std::pair(EROFS, "writable"), std::pair(EIO, "Input/output"), std::pair(EDQUOT, "quota")}) {
    const int64_t call = CallNumber("pwrite tokenize.tmp/tokens.bin.tmp", 2);
    const JobOutcome failed = Run({.call = call, .error = error});
    EXPECT_THAT(std::string(failed.status.message()),
                AllOf(HasSubstr("tokens.bin"), HasSubstr(text)));
    ExpectSameBytes();
    fs::remove_all(home_ / "store");
  }
}

void SetLimit(__rlimit_resource resource, rlim_t value) {
  const rlimit limit = {value, value};
  BRAID_CHECK(setrlimit(resource, &limit) == 0);
  std::signal(SIGXFSZ, SIG_IGN);
}

TEST_F(DiskFaultTest, FileSizeLimit) {
  const JobOutcome limited = Run({}, [] { SetLimit(RLIMIT_FSIZE, 50000); });
  EXPECT_THAT(std::string(limited.status.message()),
              AllOf(HasSubstr("texts.bin"), HasSubstr("ulimit -f")));
  ExpectSameBytes();
}

TEST_F(DiskFaultTest, TooManyOpenFiles) {
#if defined(BRAID_ASAN)
  GTEST_SKIP() << "the undefined behavior sanitizer needs file descriptors itself";
#endif
  for (const char* call : {"fsync ingest.tmp/ids.bin.tmp", "fsync tokenize.tmp/tokens.bin.tmp",
                           "fsync embed.tmp/embeddings.npy.tmp"}) {
    ASSERT_TRUE(Run({.call = CallNumber(call, 4)}).killed);
    int num_failed = 0;
    for (rlim_t limit = 4; limit < 24; ++limit, ++num_failed) {
      const JobOutcome limited = Run({}, [limit] { SetLimit(RLIMIT_NOFILE, limit); });
      if (limited.status.ok()) break;
      EXPECT_TRUE(absl::IsResourceExhausted(limited.status)) << limited.status;
      EXPECT_THAT(std::string(limited.status.message()),
                  AllOf(HasSubstr("Too many open files"), HasSubstr("ulimit -n")));
    }
    EXPECT_GE(num_failed, 2);
    ExpectSameBytes();
    fs::remove_all(home_ / "store");
  }
}

TEST_F(DiskFaultTest, DirectoryThatCannotBeWritten) {
  constexpr uid_t kNobody = 65534;
  const auto as_nobody = [] {
    if (getuid() == 0) BRAID_CHECK(setgid(kNobody) == 0 && setuid(kNobody) == 0);
  };
  fs::create_directories(home_ / "store");
  fs::permissions(home_ / "store", fs::perms::owner_read | fs::perms::owner_exec |
                                       fs::perms::others_read | fs::perms::others_exec);
  const JobOutcome refused = Run({}, as_nobody);
  EXPECT_TRUE(absl::IsPermissionDenied(refused.status)) << refused.status;
  EXPECT_THAT(std::string(refused.status.message()),
              AllOf(HasSubstr("ingest: "), HasSubstr(home_.string()), HasSubstr("permissions")));
  fs::permissions(home_ / "store", fs::perms::owner_all);
  ExpectSameBytes();
}

TEST(DiskFaultReadTest, APageThatCannotBeReadIsNotADamagedOne) {
  const std::vector<std::string> paths = {BRAID_TESTS_DIR "/formats/parquet/golden/none-1.parquet"};
  const auto reader = CorpusReader::Open(paths, {}).value();
  Document document;
  std::vector<Reject> rejects;
  g_pread_error = EIO;
  const auto step = reader->Next(&document, &rejects);
  g_pread_error = 0;
  EXPECT_TRUE(absl::IsUnavailable(step.status())) << step.status();
  EXPECT_TRUE(rejects.empty());
}

// Runs in its own mount namespace, for which the test needs root; otherwise it is skipped.
TEST_F(DiskFaultTest, SmallFileSystemThatGrows) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string path = home_.string();
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) ||
        mount("tmpfs", path.c_str(), "tmpfs", 0, "size=400k") != 0) {
      _exit(77);
    }
    std::string size = "size=400k";
    int num_full = 0;
    for (int kilobytes = 400; kilobytes < 64000; kilobytes = kilobytes * 3 / 2) {
      size = "size=" + std::to_string(kilobytes) + "k";
      if (mount("tmpfs", path.c_str(), "tmpfs", MS_REMOUNT, size.c_str()) != 0) _exit(1);
      const JobOutcome outcome = Run();
      if (outcome.status.ok()) _exit(num_full < 3 ? 2 : StoreContents(home_) == *contents_ ? 0 : 3);
      if (!absl::IsResourceExhausted(outcome.status)) _exit(4);
      ++num_full;
    }
    _exit(5);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot mount";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace disk_fault_test
}  // namespace braid
