#include "runs/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "runs/metrics_line.h"

namespace braid {
namespace {

struct KeptLines {
  std::string text;         // the complete lines of steps up to the one that was asked for
  int64_t num_damaged = 0;  // lines among them that cannot be read, and are not in `text`
};

// A file that cannot be read is an error, not an empty one: it would be replaced.
absl::StatusOr<KeptLines> LinesUpTo(const std::filesystem::path& path, int64_t step) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return KeptLines();
  RETURN_IF_ERROR(text.status());
  KeptLines kept;
  int64_t newest = 0, unreadable = 0;
  size_t begin = 0;
  for (size_t end; (end = text->find('\n', begin)) != text->npos; begin = end + 1) {
    const std::string line = text->substr(begin, end - begin);
    v1::StepMetrics metrics;
    if (!ParseMetricsLine(line, &metrics)) {
      ++unreadable;
      continue;
    }
    if (metrics.step() > step) continue;
    newest = std::max(newest, metrics.step());
    kept.num_damaged += std::exchange(unreadable, 0);
    kept.text += line + "\n";
  }
  // Unreadable lines at the end belong to later steps if none of these is missing.
  if (newest < step) kept.num_damaged += unreadable;
  return kept;
}

// Copies the file to NAME.damaged, or to NAME.damaged-2 and so on where that exists.
absl::StatusOr<std::filesystem::path> KeepDamaged(const std::filesystem::path& path) {
  std::filesystem::path copy = absl::StrCat(path.string(), ".damaged");
  for (int i = 2; std::filesystem::exists(copy); ++i) {
    copy = absl::StrCat(path.string(), ".damaged-", i);
  }
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  RETURN_IF_ERROR(WriteFileAtomically(copy, bytes));
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
  ASSIGN_OR_RETURN(const KeptLines kept, LinesUpTo(path, step));
  if (kept.num_damaged > 0) {
    ASSIGN_OR_RETURN(const std::filesystem::path copy, KeepDamaged(path));
    *warnings << "warning: " << path.string() << ": " << kept.num_damaged
              << " of the lines up to step " << step << " cannot be read and are left out; "
              << copy.string() << " keeps the file as it was" << std::endl;
  }
  RETURN_IF_ERROR(WriteFileAtomically(path, kept.text));
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
