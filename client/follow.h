// Watching jobs and runs to their end with progress on a ProgressBoard.
#ifndef BRAID_CLIENT_FOLLOW_H_
#define BRAID_CLIENT_FOLLOW_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/terminal/progress_board.h"
#include "rpc/pipeline_client.h"
#include "rpc/training_client.h"

namespace braid {

// How a row shows one step of training.
Progress RunProgress(const v1::StepMetrics& metrics, int64_t num_steps, double eta_seconds);

// Follow until the end or Ctrl-C (CancelledError). The job or run comes back
// whatever way it ended; see JobOutcome and RunOutcome.
absl::StatusOr<v1::Job> FollowJob(PipelineClient& client, const std::string& id,
                                  ProgressBoard& board);
absl::StatusOr<v1::Run> FollowRun(TrainingClient& client, const std::string& id,
                                  const std::string& label, ProgressBoard& board);

// The job of this request, new or found again, queued again where it was ended without success, and
// followed to its success.
absl::StatusOr<v1::Job> CompleteJob(PipelineClient& client, const v1::SubmitCorpusRequest& request,
                                    ProgressBoard& board);

// "similarity order: 55,094 instances, adjacent cosine 0.271", of a job that succeeded.
std::string OrderText(const v1::Job& job);

// OK for success, otherwise an error that says how to go on.
absl::Status JobOutcome(const v1::Job& job);
absl::Status RunOutcome(const v1::Run& run);

}  // namespace braid

#endif  // BRAID_CLIENT_FOLLOW_H_
