#include "pipeline/job_table.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/job_id.h"

namespace braid {
namespace {

constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS jobs(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  request_id TEXT NOT NULL UNIQUE,
  spec BLOB NOT NULL,
  state INTEGER NOT NULL,
  error TEXT NOT NULL DEFAULT '',
  stages BLOB NOT NULL DEFAULT x'',
  result BLOB,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  created REAL NOT NULL,
  finished REAL NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs(state, id);
CREATE TABLE IF NOT EXISTS events(
  job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  event BLOB NOT NULL,
  PRIMARY KEY(job, number)) WITHOUT ROWID;
)sql";
constexpr char kColumns[] =
    "SELECT id, spec, state, error, stages, result, created, finished,"
    " (SELECT COALESCE(MAX(number), 0) FROM events WHERE job = jobs.id) FROM jobs ";

// Equal messages give equal bytes.
std::string Serialize(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

void BindBlob(SQLite::Statement& statement, int index, const std::string& bytes) {
  statement.bind(index, static_cast<const void*>(bytes.data()), static_cast<int>(bytes.size()));
}

v1::Job FromRow(SQLite::Statement& row) {
  v1::Job job;
  job.ParseFromString(row.getColumn(4).getString());  // only `stages` is stored there
  job.set_id(JobId(row.getColumn(0).getInt64()));
  job.mutable_spec()->ParseFromString(row.getColumn(1).getString());
  job.set_state(static_cast<v1::JobState>(row.getColumn(2).getInt()));
  job.set_error(row.getColumn(3).getString());
  if (!row.getColumn(5).isNull()) {
    job.mutable_result()->ParseFromString(row.getColumn(5).getString());
  }
  job.set_created_at(row.getColumn(6).getDouble());
  job.set_finished_at(row.getColumn(7).getDouble());
  job.set_last_event(row.getColumn(8).getInt64());
  return job;
}

void ReplaceStage(const v1::StageProgress& progress, v1::Job* job) {
  for (v1::StageProgress& stage : *job->mutable_stages()) {
    if (stage.stage() == progress.stage()) {
      stage = progress;
      return;
    }
  }
  *job->add_stages() = progress;
}

}  // namespace

int JobTable::SchemaVersion(SQLite::Database& database) {
  return database.execAndGet("PRAGMA user_version").getInt();
}

void JobTable::CreateTables(SQLite::Database& database) {
  database.exec(kSchema);
  database.exec(absl::StrCat("PRAGMA user_version=", kSchemaVersion));
}

int64_t JobTable::Insert(const v1::CorpusSpec& spec, const std::string& request_id,
                         double created) {
  SQLite::Statement insert(database_,
                           "INSERT INTO jobs(request_id, spec, state, created) VALUES(?, ?, ?, ?)");
  insert.bind(1, request_id);
  BindBlob(insert, 2, Serialize(spec));
  insert.bind(3, static_cast<int>(v1::JOB_QUEUED));
  insert.bind(4, created);
  insert.exec();
  return database_.getLastInsertRowid();
}

absl::StatusOr<v1::Job> JobTable::Read(int64_t number) {
  SQLite::Statement query(database_, absl::StrCat(kColumns, "WHERE id = ?"));
  query.bind(1, number);
  if (!query.executeStep()) return UnknownJob(JobId(number));
  return FromRow(query);
}

std::optional<v1::Job> JobTable::OfRequest(const std::string& request_id) {
  SQLite::Statement query(database_, absl::StrCat(kColumns, "WHERE request_id = ?"));
  query.bind(1, request_id);
  if (!query.executeStep()) return std::nullopt;
  return FromRow(query);
}

std::vector<v1::Job> JobTable::All() {
  std::vector<v1::Job> jobs;
  SQLite::Statement query(database_, absl::StrCat(kColumns, "ORDER BY id DESC"));
  while (query.executeStep()) jobs.push_back(FromRow(query));
  return jobs;
}

std::vector<int64_t> JobTable::InState(v1::JobState state) {
  std::vector<int64_t> numbers;
  SQLite::Statement query(database_, "SELECT id FROM jobs WHERE state = ? ORDER BY id");
  query.bind(1, static_cast<int>(state));
  while (query.executeStep()) numbers.push_back(query.getColumn(0).getInt64());
  return numbers;
}

void JobTable::Update(int64_t number, const StateChange& change) {
  SQLite::Statement update(database_,
                           "UPDATE jobs SET state = ?, error = ?, result = ?, finished = ?,"
                           " stages = CASE WHEN ? THEN x'' ELSE stages END,"
                           " cancel_requested = 0 WHERE id = ?");
  update.bind(1, static_cast<int>(change.state));
  update.bind(2, change.error);
  if (change.result != nullptr) BindBlob(update, 3, Serialize(*change.result));
  update.bind(4, change.finished);
  update.bind(5, change.clear_stages ? 1 : 0);
  update.bind(6, number);
  update.exec();
}

void JobTable::UpdateStage(const v1::Job& job, int64_t number, const v1::StageProgress& progress) {
  v1::Job stages;
  *stages.mutable_stages() = job.stages();
  ReplaceStage(progress, &stages);
  SQLite::Statement update(database_, "UPDATE jobs SET stages = ? WHERE id = ?");
  BindBlob(update, 1, Serialize(stages));
  update.bind(2, number);
  update.exec();
}

bool JobTable::MarkCancelRequested(int64_t number) {
  SQLite::Statement mark(
      database_, "UPDATE jobs SET cancel_requested = 1 WHERE id = ? AND cancel_requested = 0");
  mark.bind(1, number);
  return mark.exec() > 0;
}

bool JobTable::CancelRequested(int64_t number) {
  SQLite::Statement query(database_, "SELECT cancel_requested FROM jobs WHERE id = ?");
  query.bind(1, number);
  return query.executeStep() && query.getColumn(0).getInt() != 0;
}

void JobTable::AppendEvent(int64_t number, v1::JobEvent event) {
  SQLite::Statement last(database_, "SELECT COALESCE(MAX(number), 0) FROM events WHERE job = ?");
  last.bind(1, number);
  last.executeStep();
  event.set_number(last.getColumn(0).getInt64() + 1);
  SQLite::Statement insert(database_, "INSERT INTO events(job, number, event) VALUES(?, ?, ?)");
  insert.bind(1, number);
  insert.bind(2, event.number());
  BindBlob(insert, 3, Serialize(event));
  insert.exec();
}

std::vector<v1::JobEvent> JobTable::EventsAfter(int64_t number, int64_t after, int64_t limit) {
  SQLite::Statement query(database_,
                          "SELECT event FROM events WHERE job = ? AND number > ?"
                          " ORDER BY number LIMIT ?");
  query.bind(1, number);
  query.bind(2, after);
  query.bind(3, limit);
  std::vector<v1::JobEvent> events;
  while (query.executeStep()) {
    events.emplace_back().ParseFromString(query.getColumn(0).getString());
  }
  return events;
}

bool SameSpec(const v1::CorpusSpec& a, const v1::CorpusSpec& b) {
  return Serialize(a) == Serialize(b);
}

}  // namespace braid
