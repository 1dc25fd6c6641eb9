#include "runs/run_fence.h"

#include "absl/status/statusor.h"
#include "runs/process_identity.h"

namespace braid {

bool RunFence::Superseded() const {
  if (nonce_.empty()) return false;
  const absl::StatusOr<ProcessRecord> attempt = ReadProcessRecord(directory_.attempt());
  return attempt.ok() && attempt->nonce != nonce_;
}

}  // namespace braid
