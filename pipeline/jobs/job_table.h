// Jobs and their events as rows of an SQLite database. This file stores and queries; the rules are
// in job_store.h.
//
// Every stored message has a CRC-32C in a column beside it; that of a spec also covers the request
// id, the principal and the time of creation. They are compared whenever the message is read.
//
// The column request_id has the RequestKey (rpc/request_id.h) of a job; rows of older programs have
// the id as the client sent it.
//
// Not thread-safe. Opens no transactions. Every function may throw SQLite::Exception: DamagedRow
// when a stored message is not as it was written.
#ifndef BRAID_PIPELINE_JOBS_JOB_TABLE_H_
#define BRAID_PIPELINE_JOBS_JOB_TABLE_H_

#include <SQLiteCpp/Exception.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "braid/v1/job.pb.h"

namespace SQLite {
class Database;
}  // namespace SQLite

namespace braid {

// A stored message that is not as it was written. what() names the row and the message.
class DamagedRow : public SQLite::Exception {
 public:
  using SQLite::Exception::Exception;
};

class JobTable {
 public:
  // The version of the tables that this program writes.
  static constexpr int kSchemaVersion = 3;
  // Returns the version of a database; 0 for a new one.
  static int SchemaVersion(SQLite::Database& database);
  // Creates the tables, or upgrades those of an older version and keeps their rows. The rows of a
  // version without checksums get the checksums of what they contain.
  static void CreateTables(SQLite::Database& database);

  // Requires: `database` outlives the table.
  explicit JobTable(SQLite::Database* database) : database_(*database) {}

  // Inserts a QUEUED job without events and returns its number.
  int64_t Insert(const v1::CorpusSpec& spec, const std::string& request_id,
                 const std::string& principal, double created);

  // Returns a job, or UnknownJob().
  absl::StatusOr<v1::Job> Read(int64_t number);
  // Returns the job that the principal submitted with this request id, if any.
  std::optional<v1::Job> OfRequest(const std::string& request_id, const std::string& principal);
  // Returns at most `limit` jobs with numbers below `before`, newest first. Of a damaged job only
  // the id and the state, with the damage as its error, so that it does not hide the others.
  std::vector<v1::Job> Before(int64_t before, int64_t limit);
  // Returns what is damaged in a job; "" when it can be read.
  std::string DamageOf(int64_t number);
  // Returns the numbers of the jobs in a state, ascending.
  std::vector<int64_t> InState(v1::JobState state);
  // Returns the number of queued and running jobs of a principal.
  int64_t NumUnfinished(const std::string& principal);

  // Returns the queued job to start at `now`: of the principal that has waited longest since its
  // last start, the oldest job that is not waiting for a retry.
  std::optional<int64_t> NextInTurn(double now);
  // Counts an attempt of the job and a turn of its principal.
  void CountStart(int64_t number);
  // Counts a failed attempt; returns the number of consecutive failures without progress.
  int CountFailure(int64_t number);
  // Records how far the job has come; `place` increases with its progress. A new maximum resets the
  // count of failures.
  void MarkReached(int64_t number, int64_t place);
  // Resets the counts of attempts and failures to those of a new job.
  void ForgetAttempts(int64_t number);

  // A change of the state of a job. It clears a request to cancel.
  struct StateChange {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    std::string error = {};
    const v1::JobResult* result = nullptr;
    double finished = 0;
    double not_before = 0;  // earliest start, in Unix seconds
    bool clear_stages = false;
  };
  void Update(int64_t number, const StateChange& change);
  // Replaces the stored progress of the same stage, or adds it after the others.
  void UpdateStage(const v1::Job& job, int64_t number, const v1::StageProgress& progress);

  // Marks a request to cancel; returns false if the job was already marked.
  bool MarkCancelRequested(int64_t number);
  bool CancelRequested(int64_t number);

  // Appends an event with the next number of the job.
  void AppendEvent(int64_t number, v1::JobEvent event);
  // Returns events with numbers above `after`, ascending: at most `limit`, and none after the one
  // with which they reach `max_bytes`.
  std::vector<v1::JobEvent> EventsAfter(int64_t number, int64_t after, int64_t limit,
                                        int64_t max_bytes);
  // Returns a number that changes when another connection changes the database.
  int64_t DataVersion();

 private:
  SQLite::Database& database_;
};

// Returns whether two specs are equal in every field.
bool SameSpec(const v1::CorpusSpec& a, const v1::CorpusSpec& b);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_TABLE_H_
