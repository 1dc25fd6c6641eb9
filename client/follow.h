// Following jobs and runs until they end, with progress on a ProgressBoard.
#ifndef BRAID_CLIENT_FOLLOW_H_
#define BRAID_CLIENT_FOLLOW_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "client/terminal/progress_board.h"
#include "rpc/pipeline_client.h"
#include "rpc/training_client.h"

namespace braid {

// Returns the progress of a run after a step, for one row of a board; before the first step it has
// neither figures nor a remaining time.
Progress RunProgress(const v1::StepMetrics& metrics, int64_t num_steps, double eta_seconds);

// Returns the error of a command that Ctrl-C has ended while it followed a job or a run that
// continues: Cancelled with the commands that follow it again and that stop it.
absl::Status StoppedWatching(const std::string& id);

// Returns the error of a call about a job or a run that is followed. When the service is away, it
// says that the job or run continues, and how to follow it again.
absl::Status OutlivingService(const absl::Status& ended, const std::string& id);

// Follow a job or a run until it ends and return it, whether it succeeded or not; see JobOutcome
// and RunOutcome. On Ctrl-C, StoppedWatching; for a job of a service in this process, which stops
// with it, Cancelled with the command that resumes it. A service that restarts is waited for, as
// WatchEvents does; the error of one that stays away says that the job or run continues.
absl::StatusOr<v1::Job> FollowJob(PipelineClient& client, const std::string& id,
                                  ProgressBoard& board);
absl::StatusOr<v1::Run> FollowRun(TrainingClient& client, const std::string& id,
                                  const std::string& label, ProgressBoard& board);

// Submit a job or launch a run and return it. When the service goes away before it answers, a
// request with a request id, which is carried out only once, is repeated for up to `patience`. The
// error of a service that stays away names the command that shows whether it was accepted.
absl::StatusOr<v1::Job> SubmitOnce(PipelineClient& client, const v1::SubmitCorpusRequest& request,
                                   ProgressBoard& board,
                                   std::chrono::milliseconds patience = std::chrono::minutes(1));
absl::StatusOr<v1::Run> LaunchOnce(TrainingClient& client, const v1::LaunchRunRequest& request,
                                   ProgressBoard& board,
                                   std::chrono::milliseconds patience = std::chrono::minutes(1));

// Submits a job, resumes it when the request id names a job that ended without success, and follows
// it until it succeeds. Errors as JobOutcome.
absl::StatusOr<v1::Job> CompleteJob(PipelineClient& client, const v1::SubmitCorpusRequest& request,
                                    ProgressBoard& board);

// Returns "similarity order: 55,094 instances, adjacent cosine 0.271" for a job that succeeded.
std::string OrderText(const v1::Job& job);

// Return OK for a job or run that succeeded; Aborted, with its error, when it failed; Cancelled,
// with the command that resumes it, when it was canceled or stopped; Unavailable when it has not
// ended.
absl::Status JobOutcome(const v1::Job& job);
absl::Status RunOutcome(const v1::Run& run);

}  // namespace braid

#endif  // BRAID_CLIENT_FOLLOW_H_
