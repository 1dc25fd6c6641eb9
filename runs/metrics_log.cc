#include "runs/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "runs/metrics_line.h"

namespace braid {
namespace {

// Appends the complete lines of steps up to `step` to `kept`. Returns the number of lines among
// them that cannot be read, which are left out. A file that cannot be read is an error, not an
// empty one: it would be replaced.
absl::StatusOr<int64_t> KeepLinesUpTo(const std::filesystem::path& path, int64_t step,
                                      AtomicFile* kept) {
  int64_t newest = 0, unreadable = 0, num_damaged = 0;
  std::string line;
  const auto keep_line = [&]() -> absl::Status {
    v1::StepMetrics metrics;
    if (!ParseMetricsLine(line, &metrics)) {
      ++unreadable;
      return absl::OkStatus();
    }
    if (metrics.step() > step) return absl::OkStatus();
    newest = std::max(newest, metrics.step());
    num_damaged += std::exchange(unreadable, 0);
    return kept->Append(line + "\n");
  };
  // The file of a long run may be larger than the memory that a rank can spare.
  const absl::Status read = ReadInPieces(path, [&](std::string_view piece) -> absl::Status {
    for (size_t end; (end = piece.find('\n')) != piece.npos; piece.remove_prefix(end + 1)) {
      line += piece.substr(0, end);
      RETURN_IF_ERROR(keep_line());
      line.clear();
    }
    line += piece;
    return absl::OkStatus();
  });
  if (!read.ok() && !absl::IsNotFound(read)) return read;
  // Unreadable lines at the end belong to later steps if none of these is missing.
  if (newest < step) num_damaged += unreadable;
  return num_damaged;
}

// Copies the file to NAME.damaged, or to NAME.damaged-2 and so on where that exists.
absl::StatusOr<std::filesystem::path> KeepDamaged(const std::filesystem::path& path) {
  std::filesystem::path copy = absl::StrCat(path.string(), ".damaged");
  for (int i = 2; std::filesystem::exists(copy); ++i) {
    copy = absl::StrCat(path.string(), ".damaged-", i);
  }
  ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(copy));
  RETURN_IF_ERROR(ReadInPieces(path, [&](std::string_view piece) { return file->Append(piece); }));
  RETURN_IF_ERROR(file->Commit().status());
  return copy;
}

}  // namespace

std::string MetricsLine(const v1::StepMetrics& metrics) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string line;
  (void)google::protobuf::util::MessageToJsonString(metrics, &line, options);
  return line;
}

absl::StatusOr<std::unique_ptr<MetricsLog>> MetricsLog::Open(const std::filesystem::path& path,
                                                             int64_t step, std::ostream* warnings) {
  ASSIGN_OR_RETURN(const auto kept, AtomicFile::Create(path));
  ASSIGN_OR_RETURN(const int64_t num_damaged, KeepLinesUpTo(path, step, kept.get()));
  if (num_damaged > 0) {
    ASSIGN_OR_RETURN(const std::filesystem::path copy, KeepDamaged(path));
    *warnings << "warning: " << path.string() << ": " << num_damaged << " of the lines up to step "
              << step << " cannot be read and are left out; " << copy.string()
              << " keeps the file as it was" << std::endl;
  }
  RETURN_IF_ERROR(kept->Commit().status());
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open", path, errno);
  return std::unique_ptr<MetricsLog>(new MetricsLog(path, descriptor));
}

MetricsLog::~MetricsLog() { ::close(descriptor_); }

absl::Status MetricsLog::Append(const v1::StepMetrics& metrics) {
  const std::string line = MetricsLine(metrics) + "\n";
  const ssize_t written = ::write(descriptor_, line.data(), line.size());
  if (written < 0) return SystemError("write", path_, errno);
  // A regular file accepts fewer bytes than requested only when the device is full.
  if (static_cast<size_t>(written) < line.size()) return SystemError("write", path_, ENOSPC);
  return absl::OkStatus();
}

absl::Status MetricsLog::Sync() {
  return ::fsync(descriptor_) == 0 ? absl::OkStatus() : SystemError("flush", path_, errno);
}

}  // namespace braid
