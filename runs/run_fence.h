// Keeps a rank of a superseded attempt - one that was stopped, cut off or slow to end - from
// writing into a run that has been started again elsewhere.
#ifndef BRAID_RUNS_RUN_FENCE_H_
#define BRAID_RUNS_RUN_FENCE_H_

#include <string>
#include <utility>

#include "runs/run_directory.h"

namespace braid {

// Compares this rank's attempt with attempt.json, which names the attempt that owns the run. A
// supervisor writes it durably before the ranks of an attempt start. Thread-safe.
class RunFence {
 public:
  // `nonce` names the attempt that this rank belongs to. An empty one, as when the trainer is
  // started by hand, is never superseded.
  RunFence(RunDirectory directory, std::string nonce)
      : directory_(std::move(directory)), nonce_(std::move(nonce)) {}

  // Returns true when another attempt owns the run, so this rank must not write any more. False
  // when attempt.json cannot be read, because this gives no evidence of another attempt.
  bool Superseded() const;

  const std::string& nonce() const { return nonce_; }

 private:
  const RunDirectory directory_;
  const std::string nonce_;
};

}  // namespace braid

#endif  // BRAID_RUNS_RUN_FENCE_H_
