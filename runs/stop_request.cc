#include "runs/stop_request.h"

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "runs/process_identity.h"

namespace braid {

absl::Status RecordStopRequest(const RunDirectory& run, double now) {
  const absl::StatusOr<ProcessRecord> record = ReadProcessRecord(run.process());
  if (!record.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(run.root().string(),
                     ": the run has no process to stop: ", std::string(record.status().message())));
  }
  if (ReadStopRequest(run)) return absl::OkStatus();
  const nlohmann::json json = {{"nonce", record->nonce}, {"requested_at", now}};
  return WriteFileAtomically(run.stop(), json.dump(2) + "\n");
}

std::optional<StopRequest> ReadStopRequest(const RunDirectory& run) {
  const absl::StatusOr<std::string> text = ReadFile(run.stop());
  if (!text.ok()) return std::nullopt;
  const absl::StatusOr<ProcessRecord> record = ReadProcessRecord(run.process());
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!record.ok() || !json.is_object() || json.value("nonce", "") != record->nonce) {
    return std::nullopt;
  }
  return StopRequest{.nonce = record->nonce, .requested_at = json.value("requested_at", 0.0)};
}

}  // namespace braid
