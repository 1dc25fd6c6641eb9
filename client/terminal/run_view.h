// A training run as text: what `braid status` prints, and what --watch redraws.
#ifndef BRAID_CLIENT_TERMINAL_RUN_VIEW_H_
#define BRAID_CLIENT_TERMINAL_RUN_VIEW_H_

#include <deque>
#include <string>
#include <vector>

#include "braid/v1/training.pb.h"

namespace braid {

// The losses of the newest steps, oldest first, for a curve.
class LossHistory {
 public:
  // Steps that are not newer than the newest are left out.
  void Add(const v1::StepMetrics& step);
  // At most `count` values: the newest steps.
  std::vector<double> Newest(int count) const;

 private:
  std::deque<double> losses_;
  int64_t newest_step_ = 0;
};

// Lines of at most `width` columns: state, step, loss, speed, experts, ranks with their
// heartbeats and hosts, and what went wrong. Of many ranks, those that ask for
// attention are shown. `now` in Unix seconds.
std::vector<std::string> RunLines(const v1::Run& run, const LossHistory& history, double now,
                                  int width);

// The name of a state for people, such as "RUNNING".
std::string StateName(v1::RunState state);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_RUN_VIEW_H_
