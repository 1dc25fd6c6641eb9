#include "control/supervision/attempt_files.h"

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "control/supervision/run_event_log.h"
#include "runs/process_identity.h"

namespace braid {
namespace {

// Number of newest events among which the start of an attempt is searched.
constexpr int64_t kRecentEvents = 1000;

}  // namespace

std::optional<ExitRecord> ExitOfAttempt(const RunDirectory& run) {
  std::optional<ExitRecord> exit = run.ReadExit();
  const absl::StatusOr<ProcessRecord> attempt = ReadProcessRecord(run.attempt());
  // A rank of an earlier attempt that is still alive on another host may write exit.json late.
  const bool foreign =
      exit && !exit->nonce.empty() && attempt.ok() && exit->nonce != attempt->nonce;
  return foreign ? std::nullopt : exit;
}

bool HasBegunAttempt(const RunDirectory& run, int64_t last_event) {
  const absl::StatusOr<ProcessRecord> attempt = ReadProcessRecord(run.attempt());
  const absl::StatusOr<std::vector<v1::RunEvent>> events =
      ReadRunEvents(run.events(), std::max<int64_t>(0, last_event - kRecentEvents));
  if (!attempt.ok() || !events.ok()) return attempt.ok();
  const auto before = std::find_if(events->rbegin(), events->rend(), [](const auto& event) {
    return event.state() != v1::RUN_STARTING;
  });
  // before.base() is the first event that announces the newest attempt.
  return before.base() == events->end() || attempt->launched_at >= before.base()->time();
}

}  // namespace braid
