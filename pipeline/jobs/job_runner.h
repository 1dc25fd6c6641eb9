// Runs the stages of one corpus job and reuses the outputs that the store already has:
//
//   ingest -> tokenize -------------------------------------> pack
//          -> embed -> neighbors -> deduplicate -> order ------^
//
// Guarantees: the bytes of the result are a function of the spec (without num_threads) and of the
// input files, whatever was interrupted or reused.
#ifndef BRAID_PIPELINE_JOBS_JOB_RUNNER_H_
#define BRAID_PIPELINE_JOBS_JOB_RUNNER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "braid/v1/job.pb.h"
#include "pipeline/store/stage_store.h"

namespace braid {

// Returns the names of the stages in order of execution.
const std::vector<std::string>& StageNames();

// The callbacks of a running job.
struct JobHooks {
  // Called often and on the thread of RunJob(): at the start and end of every stage and between its
  // chunks.
  std::function<void(const v1::StageProgress&)> report;
  // Returns whether the job should stop. Called between chunks.
  std::function<bool()> stop;
};

// Runs a job. Requires: `resolved` is a result of ResolveCorpusSpec(). Sets the number of worker
// threads of the process (SetRetrievalThreads) to resolved.num_threads() until it ends. Errors:
// CANCELLED when hooks.stop() returned true; those of the stages, prefixed with the stage's name.
absl::StatusOr<v1::JobResult> RunJob(const v1::CorpusSpec& resolved, StageStore* store,
                                     const JobHooks& hooks);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_RUNNER_H_
