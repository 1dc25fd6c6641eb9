// The job of a scheduler that a supervisor runs in, as far as the supervisor needs to know it.
#ifndef BRAID_CONTROL_SUPERVISION_SCHEDULER_JOB_H_
#define BRAID_CONTROL_SUPERVISION_SCHEDULER_JOB_H_

#include <functional>
#include <string>

namespace braid {

// The decision of a scheduler about a job whose processes it ends.
struct JobEnd {
  // The scheduler has queued the job again, for example after a failure of a node.
  bool requeued = false;
  // "Slurm queued job 12 again because node n2 failed (down: Not responding)".
  std::string cause;
};

struct SchedulerJob {
  // "Slurm job 12"; empty without a scheduler.
  std::string name = {};
  // The job was queued again and this is not its first start.
  bool restarted = false;
  // Asks the scheduler about the end of the job, for at most some seconds.
  std::function<JobEnd()> ask_end = {};
};

// A request that a supervisor receives by a signal.
enum class StopSignal {
  kNone,
  // SIGTERM: stop. In a job of a scheduler, the scheduler ends the job.
  kStop,
  // SIGUSR1: the time limit of the job is near.
  kTimeLimit,
};

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_SCHEDULER_JOB_H_
