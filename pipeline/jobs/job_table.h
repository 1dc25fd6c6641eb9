// Jobs and their events as rows of an SQLite database: what is stored, without
// any rule about it (those are in job_store.h).
//
// Not thread-safe, opens no transaction. Everything throws SQLite::Exception.
#ifndef BRAID_PIPELINE_JOBS_JOB_TABLE_H_
#define BRAID_PIPELINE_JOBS_JOB_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"

namespace SQLite {
class Database;
}  // namespace SQLite

namespace braid {

class JobTable {
 public:
  // The layout of the tables that this program writes.
  static constexpr int kSchemaVersion = 2;
  // That of the database; 0 when it is new.
  static int SchemaVersion(SQLite::Database& database);
  // Makes what is not there yet; rows of an older version are kept.
  static void CreateTables(SQLite::Database& database);

  // `database` outlives this.
  explicit JobTable(SQLite::Database* database) : database_(*database) {}

  // A QUEUED job without events; returns its number.
  int64_t Insert(const v1::CorpusSpec& spec, const std::string& request_id,
                 const std::string& principal, double created);

  // UnknownJob when there is none.
  absl::StatusOr<v1::Job> Read(int64_t number);
  std::optional<v1::Job> OfRequest(const std::string& request_id);
  // Jobs with numbers below `before`, newest first, at most `limit`.
  std::vector<v1::Job> Before(int64_t before, int64_t limit);
  // Ascending.
  std::vector<int64_t> InState(v1::JobState state);
  // Queued or running.
  int64_t NumUnfinished(const std::string& principal);

  // The queued job whose turn it is at `now`: principals take turns, the one that has waited
  // longest for a start first; of its jobs the oldest that is not waiting for a retry.
  std::optional<int64_t> NextInTurn(double now);
  // Counts an attempt, and that it was its principal's turn.
  void CountStart(int64_t number);
  // Attempts in a row that failed without coming further than one before; with this one.
  int CountFailure(int64_t number);
  // Failures before it came this far no longer count. `place` grows as a job goes on.
  void MarkReached(int64_t number, int64_t place);
  // As when it was submitted: no attempts, no failures.
  void ForgetAttempts(int64_t number);

  // What changes with a state; the request to cancel is dropped.
  struct StateChange {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    std::string error = {};
    const v1::JobResult* result = nullptr;
    double finished = 0;
    // Not to be started before; Unix seconds.
    double not_before = 0;
    bool clear_stages = false;
  };
  void Update(int64_t number, const StateChange& change);
  // In place of the progress stored for the same stage, or after the others.
  void UpdateStage(const v1::Job& job, int64_t number, const v1::StageProgress& progress);

  // False when that had been done already.
  bool MarkCancelRequested(int64_t number);
  bool CancelRequested(int64_t number);

  // Gives the event the job's next number.
  void AppendEvent(int64_t number, v1::JobEvent event);
  // Ascending by number, at most `limit`, and no more once they have `max_bytes`.
  std::vector<v1::JobEvent> EventsAfter(int64_t number, int64_t after, int64_t limit,
                                        int64_t max_bytes);
  // Changes when another connection changes the database.
  int64_t DataVersion();

 private:
  SQLite::Database& database_;
};

// Whether two specs are equal, field by field.
bool SameSpec(const v1::CorpusSpec& a, const v1::CorpusSpec& b);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_TABLE_H_
