#include "pipeline/jobs/job_id.h"

#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace braid {

std::string JobId(int64_t number) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "job-%06lld", static_cast<long long>(number));
  return buffer;
}

absl::StatusOr<int64_t> JobNumber(const std::string& id) {
  int64_t number = 0;
  const bool parsed = id.rfind("job-", 0) == 0 && absl::SimpleAtoi(id.substr(4), &number);
  // "job-7" is not the id of job 7.
  if (!parsed || JobId(number) != id) return UnknownJob(id);
  return number;
}

absl::Status UnknownJob(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("unknown job \"", id, "\"; 'braid jobs' lists the jobs of this home directory"));
}

}  // namespace braid
