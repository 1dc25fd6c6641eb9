#include "base/database_journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/random_id.h"

namespace braid {
namespace {

struct SharedFileSystem {
  uint32_t magic;
  const char* name;
};

// File systems that several hosts may mount at a time (statfs(2), linux/magic.h).
constexpr SharedFileSystem kSharedFileSystems[] = {
    {0x6969, "nfs"},        {0xFF534D42, "cifs"},  {0xFE534D42, "smb2"}, {0x517B, "smb"},
    {0x0BD00BD0, "lustre"}, {0x47504653, "gpfs"},  {0x00C36400, "ceph"}, {0x19830326, "beegfs"},
    {0x65735546, "fuse"},   {0x01021997, "9p"},    {0x5346414F, "afs"},  {0x01161970, "gfs2"},
    {0x7461636F, "ocfs2"},  {0xAAD7AAEA, "panfs"}, {0x6B414653, "kafs"}, {0x20030528, "orangefs"},
    {0x786F4256, "vboxsf"},
};

const char* NameOfShared(const std::filesystem::path& directory) {
  struct statfs status = {};
  if (statfs(directory.c_str(), &status) != 0) return nullptr;
  for (const SharedFileSystem& known : kSharedFileSystems) {
    if (static_cast<uint32_t>(status.f_type) == known.magic) return known.name;
  }
  return nullptr;
}

// A new file that is removed at the end.
class ProbeFile {
 public:
  explicit ProbeFile(const std::filesystem::path& directory)
      : path_(directory / absl::StrCat(".probe-", RandomId(16))),
        descriptor_(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {}
  ~ProbeFile() {
    if (descriptor_ < 0) return;
    close(descriptor_);
    unlink(path_.c_str());
  }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }

 private:
  const std::filesystem::path path_;
  const int descriptor_;
};

// Returns 0, or the error of the lock that SQLite takes.
int LockError(int descriptor) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  return fcntl(descriptor, F_SETLK, &lock) == 0 ? 0 : errno;
}

// Returns 0, or the error of a mapping that writes.
int MappingError(int descriptor) {
  constexpr size_t kBytes = 4096;
  if (ftruncate(descriptor, kBytes) != 0) return errno;
  void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) return errno;
  munmap(mapped, kBytes);
  return 0;
}

// Returns whether the header of a database says that it has a write-ahead log
// (https://sqlite.org/fileformat.html, offsets 18 and 19).
bool HasWriteAheadLog(const std::filesystem::path& file) {
  char header[20] = "";
  std::ifstream in(file, std::ios::binary);
  return in.read(header, sizeof(header)) && header[18] == 2;
}

}  // namespace

absl::StatusOr<DatabaseJournal> ChooseJournal(const std::filesystem::path& directory) {
  const ProbeFile probe(directory);
  if (probe.descriptor() < 0) return SystemError("create", probe.path(), errno);
  const char* const shared = NameOfShared(directory);
  const std::string name = shared == nullptr ? "the file system" : shared;
  if (const int error_number = LockError(probe.descriptor()); error_number != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory.string(), ": ", name, " does not lock files (", std::strerror(error_number),
        "); mount it with locks, or keep the lists of jobs and runs on a local disk with --state"));
  }
  if (shared != nullptr) {
    return DatabaseJournal{.write_ahead = false,
                           .reason = absl::StrCat(name,
                                                  " may be shared by hosts, so the lists of jobs "
                                                  "and runs have a rollback journal")};
  }
  if (const int error_number = MappingError(probe.descriptor()); error_number != 0) {
    return DatabaseJournal{
        .write_ahead = false,
        .reason =
            absl::StrCat("the file system has no shared mappings (", std::strerror(error_number),
                         "), so the lists of jobs and runs have a rollback journal")};
  }
  return DatabaseJournal{.write_ahead = true,
                         .reason =
                             "a local file system; the lists of jobs and runs have a "
                             "write-ahead log"};
}

std::string JournalPragmas(const std::filesystem::path& file, const DatabaseJournal& journal) {
  if (journal.write_ahead) return "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;";
  // Without shared memory, only a connection that excludes all others reads a write-ahead log.
  const bool converts = HasWriteAheadLog(file);
  return absl::StrCat(
      converts ? "PRAGMA locking_mode=EXCLUSIVE;" : "", "PRAGMA journal_mode=DELETE;",
      converts ? "PRAGMA locking_mode=NORMAL; SELECT COUNT(*) FROM sqlite_schema;" : "",
      "PRAGMA synchronous=EXTRA;");
}

}  // namespace braid
