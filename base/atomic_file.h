// Writing files atomically and durably: a file appears complete or not at all, and survives a power
// failure once it has appeared.
//
// A file is written under the name PATH.tmp, flushed to the device and renamed to PATH; then the
// directory entry is flushed too. A file that was at PATH before stays untouched until the rename.
// A PATH.tmp that exists is replaced, so this is for directories that belong to braid; output
// at a path that a user chose is written by base/staged_output.h.
//
//   ASSIGN_OR_RETURN(auto file, AtomicFile::Create(directory / "vectors.npy"));
//   RETURN_IF_ERROR(file->Append(header));
//   RETURN_IF_ERROR(file->Append(rows));
//   ASSIGN_OR_RETURN(FileSummary summary, file->Commit());   // for the manifest
//
// A long file can be synced while it is written. After a crash, a process that kept the
// DurablePrefixes continues after the last synced byte:
//
//   ASSIGN_OR_RETURN(auto file, AtomicFile::Resume(directory / "texts.bin", kept));
//   RETURN_IF_ERROR(file->Append(chunk));
//   RETURN_IF_ERROR(file->Sync(&synced));   // now store `synced`
#ifndef BRAID_BASE_ATOMIC_FILE_H_
#define BRAID_BASE_ATOMIC_FILE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
// Prefixes by file name, without directory and without ".tmp".
using DurablePrefixes = std::map<std::string, DurablePrefix>;

// kSynced survives a power failure. kRenamed is atomic for readers on a running machine only; for
// heartbeats and other files that are rewritten often.
enum class Durability { kSynced, kRenamed };

// A file that is being written.
//
// Requires: one writer per path at a time. Not thread-safe.
//
// Guarantees: PATH changes only in a successful Commit(), or in Resume(). The CRC in the summary is
// computed from the bytes that were passed in, not from bytes read back. Small appends are
// buffered, so an error may be reported by a later call; after the first error every call returns
// it and Commit() cannot succeed.
//
// Errors: RESOURCE_EXHAUSTED (disk full, file size limit), PERMISSION_DENIED, NOT_FOUND (no such
// directory), with the path and the system's error text.
class AtomicFile {
 public:
  // Creates PATH.tmp, replacing one left by a killed process. `permissions` are the file's mode
  // bits, 0600 for secrets; the umask narrows them further.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(
      const std::filesystem::path& path, Durability durability = Durability::kSynced,
      unsigned permissions = 0666);

  // Continues the PATH.tmp left by a killed or failed process after the prefix recorded for that
  // name in `synced`; later bytes are cut off. A file that was committed since becomes PATH.tmp
  // again. An empty `synced` means that nothing was synced; the file is then created as by
  // Create().
  //
  // `head` is what the prefix began with when it was synced, for formats whose first bytes are
  // overwritten before Commit(). It is written again.
  //
  // Errors: an IsUnresumable() DATA_LOSS unless the file has exactly the recorded prefix.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Resume(const std::filesystem::path& path,
                                                            const DurablePrefixes& synced,
                                                            std::string_view head = {});

  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Removes PATH.tmp unless it was committed, or synced at least once.
  ~AtomicFile();

  absl::Status Append(std::string_view data);

  // Replaces bytes [offset, offset + data.size()), which must lie within what was appended or
  // extended so far; OUT_OF_RANGE otherwise.
  absl::Status Overwrite(int64_t offset, std::string_view data);

  // Appends `bytes` zero bytes and reserves disk space for them, so that a full disk is reported
  // before the work of filling them is done.
  absl::Status Extend(int64_t bytes);

  // Flushes all appended bytes to the device and records them in `synced` under the file's name.
  // Requires that they are not overwritten afterwards, except for the `head` passed to Resume().
  absl::Status Sync(DurablePrefixes* synced);

  // Reads back all bytes so far.
  absl::StatusOr<std::string> ReadBack();

  // Publishes the file. FAILED_PRECONDITION at the second call.
  absl::StatusOr<FileSummary> Commit();

  // Returns the number of bytes in the file so far.
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

// Returns whether `status` reports that synced data cannot be continued, so that the work has to
// start again. Resume() and the writers built on it return such errors, which Unresumable()
// creates.
bool IsUnresumable(const absl::Status& status);
absl::Status Unresumable(const std::filesystem::path& path, std::string_view why);

// Writes a whole file as AtomicFile does.
absl::Status WriteFileAtomically(const std::filesystem::path& path, std::string_view data,
                                 Durability durability = Durability::kSynced,
                                 unsigned permissions = 0666);

// Returns INVALID_ARGUMENT when there is a device, a pipe or a directory at `path`, in whose place
// a rename would put a file: for root, even /dev/full or /dev/stdout.
absl::Status CheckReplaceableFile(const std::filesystem::path& path);

// Reads a whole file. NOT_FOUND if it does not exist.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path);

// Calls `consume` with all bytes of a file, in order, at most 1 MiB at a time; returns its first
// error, or that of reading. NOT_FOUND if the file does not exist.
absl::Status ReadInPieces(const std::filesystem::path& path,
                          const std::function<absl::Status(std::string_view piece)>& consume);

// Computes length and CRC of an existing file, reading it in blocks.
absl::StatusOr<FileSummary> SummarizeFile(const std::filesystem::path& path);

// Flushes a file, or the entries of a directory, to the device.
absl::Status SyncPath(const std::filesystem::path& path);

// Creates `path` and its missing parents; succeeds if it exists already. Appends those that it
// created to `created`, outer ones first, also when it fails.
absl::Status MakeDirectories(const std::filesystem::path& path,
                             std::vector<std::filesystem::path>* created = nullptr);

// Removes a file, or a directory with everything below it; succeeds if there is none.
absl::Status RemoveTree(const std::filesystem::path& path);

// Flushes every file and directory below `temporary`, renames it to `final` and flushes the parent.
// ALREADY_EXISTS if `final` is a non-empty directory; nothing has changed then. Requires both to be
// on one file system.
absl::Status PublishDirectory(const std::filesystem::path& temporary,
                              const std::filesystem::path& final);

}  // namespace braid

#endif  // BRAID_BASE_ATOMIC_FILE_H_
