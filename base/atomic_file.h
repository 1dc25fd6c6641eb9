// Files that appear whole or not at all, and survive a power cut once they do.
//
// A file is written under the name PATH.tmp, flushed to the device, renamed to
// PATH, and the directory entry is flushed too. Whatever was at PATH before stays
// untouched until the rename.
//
//   ASSIGN_OR_RETURN(auto file, AtomicFile::Create(directory / "vectors.npy"));
//   RETURN_IF_ERROR(file->Append(header));
//   RETURN_IF_ERROR(file->Append(rows));
//   ASSIGN_OR_RETURN(FileSummary summary, file->Commit());   // for the manifest
//
// A long file can be synced on the way, and continued behind what was synced by
// whoever has kept the DurablePrefixes:
//
//   ASSIGN_OR_RETURN(auto file, AtomicFile::Resume(directory / "texts.bin", kept));
//   RETURN_IF_ERROR(file->Append(chunk));
//   RETURN_IF_ERROR(file->Sync(&synced));   // now keep `synced`
#ifndef BRAID_BASE_ATOMIC_FILE_H_
#define BRAID_BASE_ATOMIC_FILE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// What a manifest records about a committed file.
struct FileSummary {
  std::string name;  // file name without directory
  int64_t bytes = 0;
  uint32_t crc32c = 0;
};

// The first bytes of a file that is still being written, as they are on the device.
struct DurablePrefix {
  int64_t bytes = 0;
  uint32_t crc32c = 0;

  friend bool operator==(const DurablePrefix&, const DurablePrefix&) = default;
};
// By file name without directory and without ".tmp".
using DurablePrefixes = std::map<std::string, DurablePrefix>;

// kSynced survives a power cut. kRenamed is atomic for readers on a running
// machine only: for heartbeats and other files that are rewritten all the time.
enum class Durability { kSynced, kRenamed };

// Requires: one writer per path at a time. Not thread-safe.
// Guarantees: PATH changes only in a successful Commit(), or in Resume(); the CRC in the summary
// is of the bytes handed in, not of bytes read back. Small appends are gathered,
// so an error may be reported by a later call; after the first error every call
// returns it and Commit() cannot succeed.
// Errors: RESOURCE_EXHAUSTED (disk full, file size limit), PERMISSION_DENIED,
// NOT_FOUND (no such directory), with the path and the system's error text.
class AtomicFile {
 public:
  // Creates PATH.tmp, replacing one left behind by a killed process. `permissions`: of a file
  // that nobody else may see, 0600; the umask narrows them further.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(
      const std::filesystem::path& path, Durability durability = Durability::kSynced,
      unsigned permissions = 0666);

  // Continues the PATH.tmp that a killed or failed process left, behind the prefix of
  // that name in `synced`; whatever follows it is cut off. A file that was committed
  // since becomes PATH.tmp again. An empty `synced` means that nothing was: as Create().
  //
  // `head`: what the prefix began with when it was synced, for formats whose first
  // bytes are overwritten before Commit(). It is written again.
  //
  // Errors: an IsUnresumable() DATA_LOSS when the prefix is not there to the byte.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Resume(const std::filesystem::path& path,
                                                            const DurablePrefixes& synced,
                                                            std::string_view head = {});

  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Discards PATH.tmp unless it was committed, or synced at least once.
  ~AtomicFile();

  absl::Status Append(std::string_view data);

  // Replaces bytes [offset, offset + data.size()), which must lie inside what was
  // appended or extended so far. OUT_OF_RANGE otherwise.
  absl::Status Overwrite(int64_t offset, std::string_view data);

  // Appends `bytes` zero bytes and reserves disk space for them, so that a full
  // disk shows before the work of filling them is done.
  absl::Status Extend(int64_t bytes);

  // Makes all that was appended so far survive a power cut, and records it in `synced`
  // under the file's name. Requires nothing to be overwritten afterwards but the `head`
  // that Resume() is told.
  absl::Status Sync(DurablePrefixes* synced);

  // All bytes so far, read from the file.
  absl::StatusOr<std::string> ReadBack();

  // Publishes the file. At most once; FAILED_PRECONDITION the second time.
  absl::StatusOr<FileSummary> Commit();

  // Bytes in the file so far.
  int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  AtomicFile(std::filesystem::path path, int descriptor, Durability durability);
  absl::Status Flush();
  absl::Status WriteAt(int64_t offset, std::string_view data);
  absl::Status ReadCrc(int64_t offset, int64_t bytes, uint32_t* crc);
  absl::Status CutBehind(const DurablePrefix& prefix, std::string_view head);
  absl::Status Publish();
  absl::Status Fail(absl::Status status);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_;
  Durability durability_;
  bool committed_ = false;
  bool synced_ = false;
  absl::Status failure_;
  std::string pending_;  // appended, not yet written; ends at size_
  int64_t size_ = 0;
  uint32_t crc32c_ = 0;
};

// Whether an error says that what was synced cannot be continued: the work has to be
// done from its start. Resume() of this and of the writers on top of it returns such.
bool IsUnresumable(const absl::Status& status);
absl::Status Unresumable(const std::filesystem::path& path, std::string_view why);

absl::Status WriteFileAtomically(const std::filesystem::path& path, std::string_view data,
                                 Durability durability = Durability::kSynced,
                                 unsigned permissions = 0666);

// The whole file. NOT_FOUND when it does not exist.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path);

// Length and CRC of an existing file, read in pieces.
absl::StatusOr<FileSummary> SummarizeFile(const std::filesystem::path& path);

// Creates `path` and its missing parents; fine when it exists already.
absl::Status MakeDirectories(const std::filesystem::path& path);

// Flushes every file and directory below `temporary`, renames it to `final` and
// flushes the parent. ALREADY_EXISTS when `final` is a non-empty directory; then
// nothing has changed. Requires both to be on one file system.
absl::Status PublishDirectory(const std::filesystem::path& temporary,
                              const std::filesystem::path& final);

}  // namespace braid

#endif  // BRAID_BASE_ATOMIC_FILE_H_
