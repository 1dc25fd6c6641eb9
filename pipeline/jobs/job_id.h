// Names of jobs, such as "job-000007".
#ifndef BRAID_PIPELINE_JOBS_JOB_ID_H_
#define BRAID_PIPELINE_JOBS_JOB_ID_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

std::string JobId(int64_t number);

// The number in a job's name; UnknownJob(id) for anything else.
absl::StatusOr<int64_t> JobNumber(const std::string& id);

// NOT_FOUND, with a hint.
absl::Status UnknownJob(const std::string& id);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_ID_H_
