// Scores the trained models of an experiment on its held-out text and on tasks.
#ifndef BRAID_REPRODUCE_RUN_SCORER_H_
#define BRAID_REPRODUCE_RUN_SCORER_H_

#include <chrono>
#include <filesystem>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/evaluation.pb.h"
#include "braid/v1/training.pb.h"
#include "client/terminal/progress_board.h"
#include "reproduce/arm_result.h"
#include "reproduce/tuning_plan.h"
#include "rpc/analysis_client.h"
#include "rpc/service_patience.h"

namespace braid {

struct ScoringTask {
  v1::Run run = {};
  std::vector<v1::EvaluateRequest> requests = {};
  std::vector<PlannedTaskScore> task_requests = {};
  std::optional<v1::AnalyzeExpertsRequest> experts = {};
  std::optional<v1::AnalyzeLayersRequest> layers = {};
  // DigestOfTask; responses stored with another one are not used.
  std::string tasks_digest = {};
};

// The responses to all requests of one task.
struct RunScores {
  std::vector<v1::EvaluationResult> evaluations = {};
  std::vector<TaskScore> tasks = {};
  v1::ExpertActivity experts = {};
  v1::LayerAnalysis layers = {};
};

// The scores of one task, or the error of the first request that failed.
using TaskScores = absl::StatusOr<RunScores>;

// Returns the number of concurrent requests: at most the number of cores, since each request
// occupies a core if the service is on this machine.
int ScoringThreads(int slots);

// Returns the scores in the order of the tasks. Sends `slots` requests at a time, but not more than
// there are tasks and cores. Each response is stored in a file of `directory`, whose name depends
// on the run and the request, so that an interrupted scoring resumes where it stopped. Models that
// are converted for a scoring are written to directory/converted. Waits for a
// service that is unavailable. Errors: Unavailable if that takes longer than `patience`; Cancelled
// on Ctrl-C. Other errors are results of their task.
absl::StatusOr<std::vector<TaskScores>> ScoreRuns(
    const AnalysisClient& client, const std::vector<ScoringTask>& tasks, int slots,
    const std::filesystem::path& directory, ProgressBoard& board,
    std::chrono::milliseconds patience = kServicePatience);

}  // namespace braid

#endif  // BRAID_REPRODUCE_RUN_SCORER_H_
