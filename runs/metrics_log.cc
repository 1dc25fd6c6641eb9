#include "runs/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "google/protobuf/util/json_util.h"

namespace braid {
namespace {

// Returns the leading lines of the file that are complete and belong to steps up to `step`.
std::string LinesUpTo(const std::filesystem::path& path, int64_t step) {
  std::ifstream file(path, std::ios::binary);
  std::string kept;
  std::string line;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  while (std::getline(file, line) && !file.eof()) {
    v1::StepMetrics metrics;
    if (!google::protobuf::util::JsonStringToMessage(line, &metrics, options).ok()) break;
    if (metrics.step() > step) break;
    kept += line + "\n";
  }
  return kept;
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
                                                             int64_t step) {
  RETURN_IF_ERROR(WriteFileAtomically(path, LinesUpTo(path, step)));
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
