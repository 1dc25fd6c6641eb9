// The directories of the store that jobs have written or reused.
//
// A job lists the stages of its last attempt only. Those of earlier attempts, which may have had
// another input, are kept in a table of HOME/jobs.sqlite, so that deleting the job removes them.
#ifndef BRAID_PIPELINE_JOBS_JOB_DIRECTORIES_H_
#define BRAID_PIPELINE_JOBS_JOB_DIRECTORIES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "braid/v1/job.pb.h"

namespace SQLite {
class Database;
}

namespace braid {

// Returns the directories of the store that a job has written or reused in its last attempt, such
// as "store/pack-0123456789abcdef". A job that has not ended may add others.
std::set<std::string> DirectoriesOf(const v1::Job& job);

// Both functions throw SQLite::Exception.
//
// Records that an attempt of job `number` that is over had these directories. They are forgotten
// when the row of the job is deleted.
void KeepDirectories(SQLite::Database& database, int64_t number,
                     const std::set<std::string>& directories);
// Returns the directories that were recorded, by the number of the job.
std::map<int64_t, std::set<std::string>> KeptDirectories(SQLite::Database& database);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_DIRECTORIES_H_
