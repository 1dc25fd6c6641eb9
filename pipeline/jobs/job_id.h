// Returns the id of a job, such as "job-000007".
#ifndef BRAID_PIPELINE_JOBS_JOB_ID_H_
#define BRAID_PIPELINE_JOBS_JOB_ID_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

std::string JobId(int64_t number);

// Returns the number in the id of a job; UnknownJob(id) for any other string.
absl::StatusOr<int64_t> JobNumber(const std::string& id);

// Returns the NOT_FOUND error for an unknown job.
absl::Status UnknownJob(const std::string& id);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_ID_H_
