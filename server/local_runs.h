// Stops training runs whose processes cannot outlive the server, each with a checkpoint, when the
// server ends, and resumes them when it starts again. This is the case in a container, which ends
// with its first process.
#ifndef BRAID_SERVER_LOCAL_RUNS_H_
#define BRAID_SERVER_LOCAL_RUNS_H_

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "rpc/training_client.h"

namespace braid {

// The ids of the stopped runs are in HOME/runs_to_resume, one per line.
class LocalRuns {
 public:
  using Log = std::function<void(const std::string&)>;

  // Resumes, in a thread of its own, the runs that Stop has stopped in an earlier process. A run
  // that has ended otherwise by then is left alone, and so is one that is running and was not asked
  // to stop. `services` must serve training. A run that cannot be resumed within `resume_limit` is
  // reported and left to its user. The default suffices for steps of ten minutes: in a new
  // container, the ranks of the old one count as alive for 30 s plus three steps.
  LocalRuns(std::shared_ptr<grpc::Channel> services, const std::filesystem::path& home, Log log,
            std::chrono::milliseconds resume_limit = std::chrono::minutes(32));
  ~LocalRuns();
  LocalRuns(const LocalRuns&) = delete;
  LocalRuns& operator=(const LocalRuns&) = delete;

  // Stops all runs whose supervisor is a process of this machine and not of a scheduler. Blocks
  // until they have ended, at most `limit`. Ends the resuming of runs first: those that it has not
  // reached are resumed by the next process. A run that was asked to stop before is not resumed.
  void Stop(std::chrono::seconds limit);

 private:
  void EndResuming();
  void ResumeAll(std::chrono::milliseconds limit);
  // Returns whether nothing is left to do for the run; otherwise sets `cause`.
  bool Resume(const std::string& id, std::string* cause);
  void Record() const;

  TrainingClient client_;
  const std::filesystem::path list_;
  const Log log_;
  std::set<std::string> pending_;  // changed only while resuming_ does not run, or by it
  std::atomic<bool> ending_ = false;
  std::thread resuming_;
};

}  // namespace braid

#endif  // BRAID_SERVER_LOCAL_RUNS_H_
