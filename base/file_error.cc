#include "base/file_error.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace braid {
namespace {

absl::StatusCode CodeOf(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return absl::StatusCode::kAlreadyExists;
    case ENOTDIR:
    case EISDIR:
    case EINVAL:
    case ENAMETOOLONG:
      return absl::StatusCode::kInvalidArgument;
    case EIO:
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

constexpr char kSystemErrorUrl[] = "braid/system-error";

std::string HintFor(int error_number) {
  switch (error_number) {
    case ENOSPC:
      return ". Free space on that file system or choose another directory";
    case EDQUOT:
      return ". The disk quota is exhausted: delete files or ask for a larger one";
    case EFBIG:
      return ". The file exceeds the process's file size limit: see `ulimit -f`";
    case EMFILE:
      return ". Too many open files in this process: see `ulimit -n`";
    case EACCES:
    case EPERM:
      return ". Check the owner and the permissions";
    case ENOLCK:
      return ". Mount the file system with locks, or give --state DIR on a local disk";
    case EROFS:
      return ". Choose a directory on a writable file system";
    default:
      return "";
  }
}

std::string Describe(const std::filesystem::path& path, const Mismatch& m) {
  std::string text = absl::StrCat(path.string(), ": bad ", m.what, " at byte ", m.offset, ": got ",
                                  m.got, ", expected ", m.expected);
  if (!m.hint.empty()) absl::StrAppend(&text, ". ", m.hint);
  return text;
}

}  // namespace

absl::Status SystemError(std::string_view operation, const std::filesystem::path& path,
                         int error_number) {
  absl::Status status(CodeOf(error_number),
                      absl::StrCat("cannot ", std::string(operation), " ", path.string(), ": ",
                                   std::generic_category().message(error_number), " (errno ",
                                   error_number, ")", HintFor(error_number)));
  status.SetPayload(kSystemErrorUrl, absl::Cord());
  return status;
}

bool IsSystemError(const absl::Status& status) {
  return status.GetPayload(kSystemErrorUrl).has_value();
}

absl::Status CorruptFile(const std::filesystem::path& path, const Mismatch& mismatch) {
  return absl::DataLossError(Describe(path, mismatch));
}

absl::Status UnsuitableFile(const std::filesystem::path& path, const Mismatch& mismatch) {
  return absl::InvalidArgumentError(Describe(path, mismatch));
}

}  // namespace braid
