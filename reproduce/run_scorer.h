// Scores the trained models of an experiment on its held-out text, a few at a time.
#ifndef BRAID_REPRODUCE_RUN_SCORER_H_
#define BRAID_REPRODUCE_RUN_SCORER_H_

#include <chrono>
#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/training.pb.h"
#include "client/terminal/progress_board.h"
#include "rpc/analysis_client.h"
#include "rpc/service_patience.h"

namespace braid {

struct ScoringTask {
  v1::Run run = {};
  std::vector<v1::EvaluateRequest> requests = {};
};

// The evaluations of all requests of one task, or why there are none.
using TaskScores = absl::StatusOr<std::vector<v1::Evaluation>>;

// Requests at a time: each takes a core where the service is on this machine.
int ScoringThreads(int lanes);

// In the order of the tasks. Each answer is kept as a file of `directory`, so that an interrupted
// scoring goes on where it was; the file's name says of which run and request. `lanes` requests at
// a time, but no more than there are tasks and cores. A service that is away is waited for;
// UnavailableError, and no scores, when it stays away for longer than `patience`. Other errors are
// those of a task. CancelledError on Ctrl-C.
absl::StatusOr<std::vector<TaskScores>> ScoreRuns(
    const AnalysisClient& client, const std::vector<ScoringTask>& tasks, int lanes,
    const std::filesystem::path& directory, ProgressBoard& board,
    std::chrono::milliseconds patience = kServicePatience);

}  // namespace braid

#endif  // BRAID_REPRODUCE_RUN_SCORER_H_
