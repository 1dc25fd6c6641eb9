// Keeps a rank that was given up - stopped, cut off, slow to die - from writing into a run that
// has been started again elsewhere.
#ifndef BRAID_RUNS_RUN_FENCE_H_
#define BRAID_RUNS_RUN_FENCE_H_

#include <string>
#include <utility>

#include "runs/run_directory.h"

namespace braid {

// attempt.json names the attempt that owns the run; a supervisor writes it, durably, before the
// ranks of an attempt start. Safe to use from several threads.
class RunFence {
 public:
  // `nonce` of the attempt that this rank belongs to; empty, as when the trainer is started by
  // hand: never superseded.
  RunFence(RunDirectory directory, std::string nonce)
      : directory_(std::move(directory)), nonce_(std::move(nonce)) {}

  // Another attempt owns the run: this rank must not write any more. False when attempt.json
  // cannot be read, which says nothing.
  bool Superseded() const;

  const std::string& nonce() const { return nonce_; }

 private:
  const RunDirectory directory_;
  const std::string nonce_;
};

}  // namespace braid

#endif  // BRAID_RUNS_RUN_FENCE_H_
