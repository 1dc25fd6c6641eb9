// The corpus jobs that `braid explain` asks about, and the training on their datasets.
#ifndef BRAID_CLI_EXPLAIN_SUBJECT_H_
#define BRAID_CLI_EXPLAIN_SUBJECT_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/job.pb.h"
#include "braid/v1/training.pb.h"
#include "client/data_order.h"
#include "client/session.h"

namespace braid {

// The job in question, and the data order of the training in question.
struct CorpusSubject {
  v1::Job job;
  DataOrder order;
};

// Returns the subjects of a run: one for each of its datasets, in the order of the run. NOT_FOUND
// for a dataset that no job has; also the errors of DataOrderOf.
absl::StatusOr<std::vector<CorpusSubject>> SubjectsOfRun(PipelineClient& client, const v1::Run& run,
                                                         std::span<const v1::LossSpike> spikes);

// Returns the subject of the run with the dataset of a job. INVALID_ARGUMENT when it has none.
absl::StatusOr<CorpusSubject> SubjectOfJob(const v1::Job& job, const v1::Run& run,
                                           const std::vector<CorpusSubject>& subjects);

}  // namespace braid

#endif  // BRAID_CLI_EXPLAIN_SUBJECT_H_
