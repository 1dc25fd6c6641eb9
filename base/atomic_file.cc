#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr size_t kPendingBytes = 256 << 10;
constexpr int64_t kPieceBytes = 1 << 20;
constexpr char kUnresumable[] = "braid/unresumable";

std::filesystem::path ParentOf(const std::filesystem::path& path) {
  const auto parent = path.parent_path();
  return parent.empty() ? "." : parent;
}

// Returns `path` without a trailing slash, so that its parent is the directory that contains it.
std::filesystem::path WithoutSlash(const std::filesystem::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

absl::Status SyncTree(const std::filesystem::path& root) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(root, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    if (entry->is_symlink()) continue;
    if (!entry->is_regular_file() && !entry->is_directory()) continue;
    RETURN_IF_ERROR(SyncPath(entry->path()));
  }
  if (error) return SystemError("list", root, error.value());
  return SyncPath(root);
}

// Reads the next block of a file; empty at its end.
absl::Status ReadPiece(int descriptor, const std::filesystem::path& path, std::string* piece) {
  piece->resize(kPieceBytes);
  ssize_t count;
  do {
    count = ::read(descriptor, piece->data(), piece->size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return SystemError("read", path, errno);
  piece->resize(count);
  return absl::OkStatus();
}

// Opens PATH.tmp, or renames PATH back to it and opens that; returns -1 if neither exists.
absl::StatusOr<int> OpenLeft(const std::filesystem::path& path) {
  auto temporary = path;
  temporary += ".tmp";
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  int descriptor = ::open(temporary.c_str(), kFlags);
  if (descriptor < 0 && errno == ENOENT) {
    if (::rename(path.c_str(), temporary.c_str()) != 0) {
      if (errno == ENOENT) return -1;
      return SystemError("rename", path, errno);
    }
    descriptor = ::open(temporary.c_str(), kFlags);
  }
  if (descriptor < 0) return SystemError("open", temporary, errno);
  return descriptor;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, int descriptor, Durability durability)
    : path_(std::move(path)), temporary_(path_), descriptor_(descriptor), durability_(durability) {
  temporary_ += ".tmp";
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::filesystem::path& path,
                                                               Durability durability,
                                                               unsigned permissions) {
  auto temporary = path;
  temporary += ".tmp";
  RETURN_IF_ERROR(CheckReplaceableFile(path));
  const int descriptor =
      ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, permissions);
  if (descriptor < 0) return SystemError("create", temporary, errno);
  return std::unique_ptr<AtomicFile>(new AtomicFile(path, descriptor, durability));
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Resume(const std::filesystem::path& path,
                                                               const DurablePrefixes& synced,
                                                               std::string_view head) {
  if (synced.empty()) {
    ASSIGN_OR_RETURN(auto file, Create(path));
    RETURN_IF_ERROR(file->Append(head));
    return file;
  }
  const auto prefix = synced.find(path.filename().string());
  if (prefix == synced.end()) return Unresumable(path, "no synced bytes are recorded for it");
  ASSIGN_OR_RETURN(const int descriptor, OpenLeft(path));
  if (descriptor < 0) return Unresumable(path, "the file does not exist");
  std::unique_ptr<AtomicFile> file(new AtomicFile(path, descriptor, Durability::kSynced));
  file->synced_ = true;
  RETURN_IF_ERROR(file->CutBehind(prefix->second, head));
  return file;
}

absl::Status AtomicFile::CutBehind(const DurablePrefix& prefix, std::string_view head) {
  const off_t bytes = ::lseek(descriptor_, 0, SEEK_END);
  if (bytes < prefix.bytes || prefix.bytes < static_cast<int64_t>(head.size())) {
    return Unresumable(temporary_, absl::StrCat("got ", bytes, " bytes, expected at least ",
                                                std::max<int64_t>(prefix.bytes, head.size())));
  }
  RETURN_IF_ERROR(WriteAt(0, head));
  uint32_t crc = 0;
  RETURN_IF_ERROR(ReadCrc(0, prefix.bytes, &crc));
  if (crc != prefix.crc32c) {
    return Unresumable(temporary_,
                       absl::StrCat("CRC-32C of the first ", prefix.bytes, " bytes: got ",
                                    Crc32cToHex(crc), ", expected ", Crc32cToHex(prefix.crc32c)));
  }
  if (::ftruncate(descriptor_, prefix.bytes) != 0) return SystemError("cut", temporary_, errno);
  size_ = prefix.bytes;
  crc32c_ = prefix.crc32c;
  return absl::OkStatus();
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_ && !synced_) ::unlink(temporary_.c_str());
}

absl::Status AtomicFile::Fail(absl::Status status) {
  if (!status.ok() && failure_.ok()) failure_ = status;
  return status;
}

absl::Status AtomicFile::WriteAt(int64_t offset, std::string_view data) {
  while (!data.empty()) {
    const ssize_t count = ::pwrite(descriptor_, data.data(), data.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(SystemError("write", temporary_, errno));
    offset += count;
    data.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Flush() {
  RETURN_IF_ERROR(WriteAt(size_ - static_cast<int64_t>(pending_.size()), pending_));
  pending_.clear();
  return absl::OkStatus();
}

absl::Status AtomicFile::Append(std::string_view data) {
  BRAID_CHECK(!committed_) << path_;
  RETURN_IF_ERROR(failure_);
  if (pending_.size() + data.size() > kPendingBytes) RETURN_IF_ERROR(Flush());
  if (data.size() > kPendingBytes) {
    RETURN_IF_ERROR(WriteAt(size_, data));
  } else {
    pending_.append(data);
  }
  size_ += static_cast<int64_t>(data.size());
  crc32c_ = Crc32c(data, crc32c_);
  return absl::OkStatus();
}

absl::Status AtomicFile::ReadCrc(int64_t offset, int64_t bytes, uint32_t* crc) {
  std::string piece;
  *crc = 0;
  while (bytes > 0) {
    piece.resize(std::min(bytes, kPieceBytes));
    const ssize_t count = ::pread(descriptor_, piece.data(), piece.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Fail(SystemError("read", temporary_, errno));
    if (count == 0) {
      return Fail(absl::DataLossError(temporary_.string() +
                                      " was truncated by another process while it was written"));
    }
    *crc = Crc32c({piece.data(), static_cast<size_t>(count)}, *crc);
    offset += count;
    bytes -= count;
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Overwrite(int64_t offset, std::string_view data) {
  BRAID_CHECK(!committed_) << path_;
  RETURN_IF_ERROR(failure_);
  const int64_t length = static_cast<int64_t>(data.size());
  if (offset < 0 || length > size_ || offset > size_ - length) {
    return Fail(absl::OutOfRangeError(absl::StrCat(path_.string(), ": cannot overwrite ", length,
                                                   " bytes at byte ", offset, ": the file has ",
                                                   size_, " bytes so far")));
  }
  RETURN_IF_ERROR(Flush());
  uint32_t before;
  RETURN_IF_ERROR(ReadCrc(offset, length, &before));
  RETURN_IF_ERROR(WriteAt(offset, data));
  crc32c_ = Crc32cReplace(crc32c_, before, Crc32c(data), size_ - offset - length);
  return absl::OkStatus();
}

absl::Status AtomicFile::Extend(int64_t bytes) {
  BRAID_CHECK(!committed_ && bytes >= 0) << path_ << " " << bytes;
  RETURN_IF_ERROR(failure_);
  RETURN_IF_ERROR(Flush());
  if (bytes == 0) return absl::OkStatus();
  int error;
  do {
    error = ::posix_fallocate(descriptor_, size_, bytes);
  } while (error == EINTR);
  if (error == EOPNOTSUPP || error == EINVAL) {  // file systems that cannot reserve
    error = ::ftruncate(descriptor_, size_ + bytes) == 0 ? 0 : errno;
  }
  if (error != 0) return Fail(SystemError("extend", temporary_, error));
  size_ += bytes;
  crc32c_ = Crc32cConcat(crc32c_, Crc32cOfZeros(bytes), bytes);
  return absl::OkStatus();
}

absl::Status AtomicFile::Sync(DurablePrefixes* synced) {
  BRAID_CHECK(!committed_) << path_;
  RETURN_IF_ERROR(failure_);
  RETURN_IF_ERROR(Flush());
  if (::fsync(descriptor_) != 0) return Fail(SystemError("flush", temporary_, errno));
  synced_ = true;
  (*synced)[path_.filename().string()] = {size_, crc32c_};
  return absl::OkStatus();
}

absl::StatusOr<std::string> AtomicFile::ReadBack() {
  RETURN_IF_ERROR(failure_);
  RETURN_IF_ERROR(Flush());
  return ReadFile(temporary_);
}

absl::Status AtomicFile::Publish() {
  if (durability_ == Durability::kSynced && ::fsync(descriptor_) != 0) {
    return SystemError("flush", temporary_, errno);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) return SystemError("close", temporary_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return SystemError("replace", path_, errno);
  committed_ = true;
  return durability_ == Durability::kSynced ? SyncPath(ParentOf(path_)) : absl::OkStatus();
}

absl::StatusOr<FileSummary> AtomicFile::Commit() {
  if (committed_) {
    return absl::FailedPreconditionError(path_.string() + " is already committed");
  }
  RETURN_IF_ERROR(failure_);
  RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(Fail(Publish()));
  return FileSummary{path_.filename().string(), size_, crc32c_};
}

bool IsUnresumable(const absl::Status& status) {
  return status.GetPayload(kUnresumable).has_value();
}

absl::Status Unresumable(const std::filesystem::path& path, std::string_view why) {
  absl::Status status =
      absl::DataLossError(absl::StrCat(path.string(), ": cannot be continued: ", std::string(why)));
  status.SetPayload(kUnresumable, absl::Cord());
  return status;
}

absl::Status WriteFileAtomically(const std::filesystem::path& path, std::string_view data,
                                 Durability durability, unsigned permissions) {
  ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path, durability, permissions));
  RETURN_IF_ERROR(file->Append(data));
  return file->Commit().status();
}

absl::Status CheckReplaceableFile(const std::filesystem::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot replace ", path.string(), ": it is ",
                   S_ISDIR(status.st_mode) ? "a directory" : "a device or pipe",
                   ", expected a regular file or a new name"));
}

absl::Status ReadInPieces(const std::filesystem::path& path,
                          const std::function<absl::Status(std::string_view)>& consume) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open", path, errno);
  const absl::Cleanup close = [descriptor] { ::close(descriptor); };
  std::string piece;
  while (true) {
    RETURN_IF_ERROR(ReadPiece(descriptor, path, &piece));
    if (piece.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(consume(piece));
  }
}

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path) {
  std::string content;
  RETURN_IF_ERROR(ReadInPieces(path, [&](std::string_view piece) {
    content += piece;
    return absl::OkStatus();
  }));
  return content;
}

absl::StatusOr<FileSummary> SummarizeFile(const std::filesystem::path& path) {
  FileSummary summary{path.filename().string()};
  RETURN_IF_ERROR(ReadInPieces(path, [&](std::string_view piece) {
    summary.bytes += static_cast<int64_t>(piece.size());
    summary.crc32c = Crc32c(piece, summary.crc32c);
    return absl::OkStatus();
  }));
  return summary;
}

absl::Status SyncPath(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open", path, errno);
  const absl::Cleanup close = [descriptor] { ::close(descriptor); };
  if (::fsync(descriptor) != 0) return SystemError("flush", path, errno);
  return absl::OkStatus();
}

absl::Status MakeDirectories(const std::filesystem::path& path,
                             std::vector<std::filesystem::path>* created) {
  const auto directory = WithoutSlash(path);
  std::error_code error;
  if (directory.empty() || std::filesystem::is_directory(directory, error)) return absl::OkStatus();
  RETURN_IF_ERROR(MakeDirectories(ParentOf(directory), created));
  if (::mkdir(directory.c_str(), 0777) != 0) {
    const int reason = errno;
    if (std::filesystem::is_directory(directory, error)) return absl::OkStatus();
    if (reason == EEXIST) {
      return absl::AlreadyExistsError(
          absl::StrCat("cannot create directory ", directory.string(), ": a file has this name"));
    }
    return SystemError("create directory", directory, reason);
  }
  if (created != nullptr) created->push_back(directory);
  return SyncPath(ParentOf(directory));
}

absl::Status RemoveTree(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? SystemError("remove", path, error.value()) : absl::OkStatus();
}

absl::Status PublishDirectory(const std::filesystem::path& temporary,
                              const std::filesystem::path& final) {
  const auto source = WithoutSlash(temporary), target = WithoutSlash(final);
  RETURN_IF_ERROR(SyncTree(source));
  if (::rename(source.c_str(), target.c_str()) != 0) {
    return SystemError(absl::StrCat("rename ", source.string(), " to"), target, errno);
  }
  return SyncPath(ParentOf(target));
}

}  // namespace braid
