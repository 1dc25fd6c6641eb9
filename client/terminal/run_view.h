// A training run as text for a terminal, printed by `braid status` and redrawn by --watch.
#ifndef BRAID_CLIENT_TERMINAL_RUN_VIEW_H_
#define BRAID_CLIENT_TERMINAL_RUN_VIEW_H_

#include <deque>
#include <string>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid {

// The losses of the newest steps, oldest first, for a loss curve.
class LossHistory {
 public:
  // Adds the loss of a step; ignores steps that are not newer than the newest.
  void Add(const v1::StepMetrics& step);
  // Returns the losses of at most `count` newest steps.
  std::vector<double> Newest(int count) const;

 private:
  std::deque<double> losses_;
  int64_t newest_step_ = 0;
};

// Returns lines of at most `width` columns: state, step, loss, throughput, experts, ranks with
// hosts and heartbeats, and incidents. Among many ranks, slow and silent ones are shown first.
// `now` is in Unix seconds.
std::vector<std::string> RunLines(const v1::Run& run, const LossHistory& history, double now,
                                  int width);

// Returns a sentence about a run that was stopped: after which step, from which step it resumes if
// steps are lost, and how.
std::string StoppedText(const v1::Run& run);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_RUN_VIEW_H_
