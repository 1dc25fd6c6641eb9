// Scores the trained models of an experiment on its held-out text, a few at a time.
#ifndef BRAID_CLI_REPRODUCE_RUN_SCORER_H_
#define BRAID_CLI_REPRODUCE_RUN_SCORER_H_

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/training.pb.h"
#include "cli/analysis_client.h"
#include "cli/progress_board.h"

namespace braid {

struct ScoringTask {
  v1::Run run = {};
  std::vector<v1::EvaluateRequest> requests = {};
};

// The evaluations of all requests of one task, or why there are none.
using TaskScores = absl::StatusOr<std::vector<v1::Evaluation>>;

// In the order of the tasks. Each answer is kept as a file of `directory`, so that an interrupted
// scoring goes on where it was; the file's name says of which run and request. `lanes` requests at
// a time. CancelledError on Ctrl-C.
absl::StatusOr<std::vector<TaskScores>> ScoreRuns(const AnalysisClient& client,
                                                  const std::vector<ScoringTask>& tasks, int lanes,
                                                  const std::filesystem::path& directory,
                                                  ProgressBoard& board);

}  // namespace braid

#endif  // BRAID_CLI_REPRODUCE_RUN_SCORER_H_
