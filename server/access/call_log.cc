#include "server/access/call_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file_error.h"

namespace braid {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning", "error"};
// Longer than any method. What a client has sent instead of one may be as long as its metadata.
constexpr size_t kMaxMethodBytes = 256;

ordered_json Line(LogLevel level, const std::string& message) {
  return {{"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone())},
          {"level", kLevels[static_cast<size_t>(level)]},
          {"message", message}};
}

int OpenLog(const std::filesystem::path& file) {
  // With O_APPEND, lines that threads write at the same time do not overwrite each other.
  return open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

void WriteLine(int descriptor, const ordered_json& line) {
  // Bytes that are not UTF-8 are replaced, since logging must not throw.
  const std::string text = line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  // Write errors, such as a full disk, are ignored; calls continue.
  [[maybe_unused]] const ssize_t written = write(descriptor, text.data(), text.size());
}

LogLevel LevelOf(const CallRecord& record) {
  if (record.refusal == Refusal::kTokenFile) return LogLevel::kError;
  switch (record.code) {
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
      return LogLevel::kWarning;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDataLoss:
      return LogLevel::kError;
    default:
      return record.method.starts_with("/grpc.health.") ? LogLevel::kDebug : LogLevel::kInfo;
  }
}

}  // namespace

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  const auto* const found = std::ranges::find(kLevels, name);
  if (found == kLevels.end()) return std::nullopt;
  return static_cast<LogLevel>(found - kLevels.begin());
}

absl::StatusOr<std::shared_ptr<CallLog>> CallLog::Open(const std::filesystem::path& file,
                                                       LogLevel level) {
  // Standard error is duplicated, because the destructor closes the descriptor.
  const int descriptor = file.empty() ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0) : OpenLog(file);
  if (descriptor < 0) return SystemError("open log", file, errno);
  return std::shared_ptr<CallLog>(new CallLog(file, descriptor, level));
}

absl::Status CallLog::Reopen() {
  if (file_.empty()) return absl::OkStatus();
  const int descriptor = OpenLog(file_);
  if (descriptor < 0) return SystemError("open log", file_, errno);
  // Replaces the file under the same number in one step, so that no line of another thread is lost.
  const int error_number = dup3(descriptor, descriptor_, O_CLOEXEC) < 0 ? errno : 0;
  close(descriptor);
  return error_number == 0 ? absl::OkStatus() : SystemError("open log", file_, error_number);
}

CallLog::~CallLog() { close(descriptor_); }

void CallLog::Write(LogLevel level, const std::string& message) {
  if (level >= level_) WriteLine(descriptor_, Line(level, message));
}

void CallLog::OnEnd(const CallRecord& record, bool) {
  const LogLevel level = LevelOf(record);
  if (level < level_) return;
  ordered_json line = Line(level, "call");
  line["request"] = record.request_id;
  line["principal"] = record.principal;
  line["method"] = record.method.substr(0, kMaxMethodBytes);
  line["code"] = absl::StatusCodeToString(record.code);
  if (record.refusal != Refusal::kNone) line["refusal"] = RefusalName(record.refusal);
  line["seconds"] = record.seconds;
  line["peer"] = record.peer;
  WriteLine(descriptor_, line);
}

}  // namespace braid
