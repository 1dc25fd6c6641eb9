#include "runs/run_fence.h"

#include "absl/status/statusor.h"
#include "runs/process_identity.h"

namespace braid {

// Ranks of an old attempt may outlive it: on a host that was cut off, or stopped with SIGSTOP. They
// cannot be killed from elsewhere, so each of them compares its nonce with attempt.json before it
// publishes a checkpoint and once a second, and ends itself when they differ.
bool RunFence::Superseded() const {
  if (nonce_.empty()) return false;
  const absl::StatusOr<ProcessRecord> attempt = ReadProcessRecord(directory_.attempt());
  return attempt.ok() && attempt->nonce != nonce_;
}

}  // namespace braid
