#include "runs/stop_request.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/file_lock.h"
#include "base/sealed_text.h"
#include "runs/process_identity.h"

namespace braid {

absl::Status RecordStopRequest(const RunDirectory& run, double now, const std::string& reason) {
  const absl::StatusOr<ProcessRecord> record = ReadProcessRecord(run.process());
  if (!record.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(run.root().string(),
                     ": the run has no process to stop: ", std::string(record.status().message())));
  }
  // Concurrent requests would write the same temporary file. A file system without locks does not
  // prevent a request.
  const absl::StatusOr<FileLock> lock = FileLock::Take(run.root() / "stop.lock");
  const std::optional<StopRequest> first = ReadStopRequest(run);
  if (first && (first->reason.empty() || !reason.empty())) return absl::OkStatus();
  const nlohmann::json json = {{"nonce", record->nonce},
                               {"requested_at", first ? first->requested_at : now},
                               {"reason", reason}};
  return WriteFileAtomically(run.stop(), SealJson(json));
}

void RemoveStopRequest(const RunDirectory& run) {
  std::error_code ignored;
  std::filesystem::remove(run.stop(), ignored);
}

std::optional<StopRequest> ReadStopRequest(const RunDirectory& run) {
  const absl::StatusOr<std::string> text = ReadFile(run.stop());
  if (!text.ok()) return std::nullopt;
  const absl::StatusOr<ProcessRecord> record = ReadProcessRecord(run.process());
  const absl::StatusOr<nlohmann::json> json = OpenSealedJson(*text, run.stop());
  if (!record.ok() || !json.ok()) return std::nullopt;
  try {
    if (json->value("nonce", "") != record->nonce) return std::nullopt;
    return StopRequest{.nonce = record->nonce,
                       .requested_at = json->value("requested_at", 0.0),
                       .reason = json->value("reason", "")};
  } catch (const nlohmann::json::exception&) {  // a member of another type
    return std::nullopt;
  }
}

}  // namespace braid
