// Runs the stages of one corpus job, reusing what the store already has:
//
//   ingest -> tokenize -------------------------------------> pack
//          -> embed -> neighbors -> deduplicate -> order ------^
//
// The result's bytes are a function of the spec (without num_threads) and the
// input files, whatever was interrupted or reused on the way.
#ifndef BRAID_PIPELINE_JOBS_JOB_RUNNER_H_
#define BRAID_PIPELINE_JOBS_JOB_RUNNER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Names of the stages in order of execution.
const std::vector<std::string>& StageNames();

struct JobHooks {
  // Called from the running thread, often: at the start and end of a stage and
  // between its chunks.
  std::function<void(const v1::StageProgress&)> report;
  // True when the job should stop; asked between chunks.
  std::function<bool()> stop;
};

// `resolved`: from ResolveCorpusSpec. Errors: CANCELLED after hooks.stop(), and
// those of the stages, preceded by the stage's name. Sets the process's number
// of worker threads (SetRetrievalThreads) to resolved.num_threads().
absl::StatusOr<v1::JobResult> RunJob(const v1::CorpusSpec& resolved, StageStore* store,
                                     const JobHooks& hooks);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_RUNNER_H_
