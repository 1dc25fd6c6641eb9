// Selects the progress reports that become durable events: the first and the last of each stage,
// those that begin or end a wait for servers, those after a new resume point, and at most four per
// second in between.
#ifndef BRAID_PIPELINE_STORE_PROGRESS_THROTTLE_H_
#define BRAID_PIPELINE_STORE_PROGRESS_THROTTLE_H_

#include <cstdint>
#include <string>

#include "braid/v1/job.pb.h"

namespace braid {

class ProgressThrottle {
 public:
  static constexpr double kMinSeconds = 0.25;

  // Returns whether to record this report. `now`: seconds of a monotonic clock.
  bool Admit(const v1::StageProgress& progress, double now) {
    const bool first = progress.stage() != stage_ || progress.waiting() != waiting_ ||
                       progress.num_resume_points() != num_resume_points_;
    if (!first && !progress.complete() && now - admitted_at_ < kMinSeconds) return false;
    stage_ = progress.stage();
    waiting_ = progress.waiting();
    num_resume_points_ = progress.num_resume_points();
    admitted_at_ = now;
    return true;
  }

 private:
  std::string stage_, waiting_;
  int64_t num_resume_points_ = 0;
  double admitted_at_ = 0;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_PROGRESS_THROTTLE_H_
