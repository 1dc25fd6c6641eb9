// The call log of a server: one JSON object per line.
//
//   {"time":"2025-11-20T21:00:00.123Z","level":"info","message":"call","request":"9f...",
//    "principal":"ann","method":"/braid.v1.PipelineService/GetJob","code":"OK","seconds":0.0012,
//    "peer":"ipv4:10.0.0.7:40412"}
//
// Calls that failed because of the server are logged as errors, including those that failed because
// the token file cannot be read; refused calls as warnings; health checks at debug level. Requests,
// responses and tokens are never written.
#ifndef BRAID_SERVER_ACCESS_CALL_LOG_H_
#define BRAID_SERVER_ACCESS_CALL_LOG_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "server/access/call_record.h"

namespace braid {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
// Parses "debug", "info", "warning" or "error".
std::optional<LogLevel> ParseLogLevel(std::string_view name);

// Thread-safe: each line is written by one write().
class CallLog final : public CallObserver {
 public:
  // Opens `file` for appending, and creates it with mode 0640; "" is standard error.
  static absl::StatusOr<std::shared_ptr<CallLog>> Open(const std::filesystem::path& file,
                                                       LogLevel level);
  ~CallLog() override;

  // Continues in a new file of the same name, after the present one was renamed; without effect on
  // standard error. Keeps the present file when the new one cannot be opened.
  absl::Status Reopen();
  void Write(LogLevel level, const std::string& message);
  void OnStart(const std::string&) override {}
  void OnProblem(const std::string& what) override { Write(LogLevel::kError, what); }
  void OnWarning(const std::string& what) override { Write(LogLevel::kWarning, what); }
  void OnNotice(const std::string& what) override { Write(LogLevel::kInfo, what); }
  void OnEnd(const CallRecord& record, bool started) override;

 private:
  CallLog(std::filesystem::path file, int descriptor, LogLevel level)
      : file_(std::move(file)), descriptor_(descriptor), level_(level) {}

  const std::filesystem::path file_;  // empty for standard error
  const int descriptor_;
  const LogLevel level_;
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_CALL_LOG_H_
