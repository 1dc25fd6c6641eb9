#include "pipeline/jobs/job_table.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/utf8.h"
#include "pipeline/jobs/job_id.h"
#include "pipeline/jobs/retry_policy.h"
#include "rpc/request_id.h"

namespace braid {
namespace {

// The statements that upgrade a database from each version to the next, beginning with an empty
// one.
constexpr const char* kVersions[JobTable::kSchemaVersion] = {R"sql(
CREATE TABLE jobs(
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
CREATE INDEX jobs_by_state ON jobs(state, id);
CREATE TABLE events(
  job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  event BLOB NOT NULL,
  PRIMARY KEY(job, number)) WITHOUT ROWID;
)sql",
                                                             R"sql(
ALTER TABLE jobs ADD COLUMN principal TEXT NOT NULL DEFAULT 'local';
ALTER TABLE jobs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN reached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN not_before REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_turn ON jobs(principal, turn);
)sql",
                                                             R"sql(
ALTER TABLE jobs ADD COLUMN spec_crc INTEGER;
ALTER TABLE jobs ADD COLUMN stages_crc INTEGER;
ALTER TABLE jobs ADD COLUMN result_crc INTEGER;
ALTER TABLE events ADD COLUMN crc INTEGER;
)sql"};
constexpr char kColumns[] =
    "SELECT id, spec, state, error, stages, result, created, finished, principal, attempts,"
    " (SELECT COALESCE(MAX(number), 0) FROM events WHERE job = jobs.id), request_id, spec_crc,"
    " stages_crc, result_crc FROM jobs ";

// Serializes a message so that equal messages give equal bytes.
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

// Returns the checksum of a spec and of the columns that never change with it.
int64_t SpecCrc(const std::string& spec, const std::string& request_id,
                const std::string& principal, double created) {
  const uint64_t time = std::bit_cast<uint64_t>(created);
  return Crc32c(absl::StrCat(request_id.size(), " ", request_id, principal.size(), " ", principal,
                             time, " ", spec));
}

// Parses a stored message after comparing its checksum. `row` and `name` describe it in errors.
void ParseStored(const std::string& bytes, int64_t crc, const SQLite::Column& stored,
                 const std::string& row, const char* name, google::protobuf::Message* message) {
  if (stored.isNull() || stored.getInt64() != crc || !message->ParseFromString(bytes)) {
    throw DamagedRow(absl::StrCat(row, ": the stored ", name, " is damaged (CRC-32C ",
                                  Crc32cToHex(static_cast<uint32_t>(crc)), ", expected ",
                                  Crc32cToHex(static_cast<uint32_t>(stored.getInt64())), ")"));
  }
}

v1::Job FromRow(SQLite::Statement& row) {
  const std::string id = JobId(row.getColumn(0).getInt64());
  const std::string spec = row.getColumn(1).getString(), stages = row.getColumn(4).getString();
  v1::Job job;
  // Only `stages` is stored there.
  ParseStored(stages, Crc32c(stages), row.getColumn(13), id, "list of stages", &job);
  job.set_created_at(row.getColumn(6).getDouble());
  job.set_principal(row.getColumn(8).getString());
  const int64_t spec_crc =
      SpecCrc(spec, row.getColumn(11).getString(), job.principal(), job.created_at());
  ParseStored(spec, spec_crc, row.getColumn(12), id, "spec", job.mutable_spec());
  job.set_id(id);
  job.set_state(static_cast<v1::JobState>(row.getColumn(2).getInt()));
  job.set_error(row.getColumn(3).getString());
  if (!row.getColumn(5).isNull()) {
    const std::string result = row.getColumn(5).getString();
    ParseStored(result, Crc32c(result), row.getColumn(14), id, "result", job.mutable_result());
  }
  job.set_finished_at(row.getColumn(7).getDouble());
  job.set_attempts(row.getColumn(9).getInt());
  job.set_last_event(row.getColumn(10).getInt64());
  return job;
}

// Adds the checksums to the rows of a version without them.
void AddChecksums(SQLite::Database& database) {
  SQLite::Statement jobs(
      database, "SELECT id, spec, request_id, principal, created, stages, result FROM jobs");
  SQLite::Statement job(
      database, "UPDATE jobs SET spec_crc = ?, stages_crc = ?, result_crc = ? WHERE id = ?");
  while (jobs.executeStep()) {
    job.bind(1, SpecCrc(jobs.getColumn(1).getString(), jobs.getColumn(2).getString(),
                        jobs.getColumn(3).getString(), jobs.getColumn(4).getDouble()));
    job.bind(2, int64_t{Crc32c(jobs.getColumn(5).getString())});
    job.bind(3, int64_t{Crc32c(jobs.getColumn(6).getString())});
    job.bind(4, jobs.getColumn(0).getInt64());
    job.exec();
    job.reset();
  }
  SQLite::Statement events(database, "SELECT job, number, event FROM events");
  SQLite::Statement event(database, "UPDATE events SET crc = ? WHERE job = ? AND number = ?");
  while (events.executeStep()) {
    event.bind(1, int64_t{Crc32c(events.getColumn(2).getString())});
    event.bind(2, events.getColumn(0).getInt64());
    event.bind(3, events.getColumn(1).getInt64());
    event.exec();
    event.reset();
  }
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
  // Even a version that stays the same would be written, for which a full disk has no space.
  if (SchemaVersion(database) == kSchemaVersion) return;
  for (int version = SchemaVersion(database); version < kSchemaVersion; ++version) {
    database.exec(kVersions[version]);
    if (version + 1 == kSchemaVersion) AddChecksums(database);
  }
  database.exec(absl::StrCat("PRAGMA user_version=", kSchemaVersion));
}

int64_t JobTable::Insert(const v1::CorpusSpec& spec, const std::string& request_id,
                         const std::string& principal, double created) {
  SQLite::Statement insert(
      database_,
      "INSERT INTO jobs(request_id, spec, state, created, principal, spec_crc, stages_crc)"
      " VALUES(?, ?, ?, ?, ?, ?, ?)");
  const std::string bytes = Serialize(spec), key = RequestKey(principal, request_id);
  insert.bind(1, key);
  BindBlob(insert, 2, bytes);
  insert.bind(3, static_cast<int>(v1::JOB_QUEUED));
  insert.bind(4, created);
  insert.bind(5, principal);
  insert.bind(6, SpecCrc(bytes, key, principal, created));
  insert.bind(7, int64_t{Crc32c("")});
  insert.exec();
  return database_.getLastInsertRowid();
}

absl::StatusOr<v1::Job> JobTable::Read(int64_t number) {
  SQLite::Statement query(database_, absl::StrCat(kColumns, "WHERE id = ?"));
  query.bind(1, number);
  if (!query.executeStep()) return UnknownJob(JobId(number));
  return FromRow(query);
}

std::optional<v1::Job> JobTable::OfRequest(const std::string& request_id,
                                           const std::string& principal) {
  SQLite::Statement query(
      database_,
      absl::StrCat(kColumns, "WHERE request_id = ? OR (request_id = ? AND principal = ?)"));
  query.bind(1, RequestKey(principal, request_id));
  query.bind(2, request_id);  // as older programs stored it
  query.bind(3, principal);
  if (!query.executeStep()) return std::nullopt;
  return FromRow(query);
}

std::vector<v1::Job> JobTable::Before(int64_t before, int64_t limit) {
  std::vector<v1::Job> jobs;
  SQLite::Statement query(database_,
                          absl::StrCat(kColumns, "WHERE id < ? ORDER BY id DESC LIMIT ?"));
  query.bind(1, before);
  query.bind(2, limit);
  while (query.executeStep()) {
    try {
      jobs.push_back(FromRow(query));
    } catch (const DamagedRow& damage) {
      v1::Job& job = jobs.emplace_back();
      job.set_id(JobId(query.getColumn(0).getInt64()));
      job.set_state(static_cast<v1::JobState>(query.getColumn(2).getInt()));
      job.set_error(damage.what());
    }
  }
  return jobs;
}

std::string JobTable::DamageOf(int64_t number) {
  try {
    (void)Read(number);
    return "";
  } catch (const DamagedRow& damage) {
    return damage.what();
  }
}

std::vector<int64_t> JobTable::InState(v1::JobState state) {
  std::vector<int64_t> numbers;
  SQLite::Statement query(database_, "SELECT id FROM jobs WHERE state = ? ORDER BY id");
  query.bind(1, static_cast<int>(state));
  while (query.executeStep()) numbers.push_back(query.getColumn(0).getInt64());
  return numbers;
}

int64_t JobTable::NumUnfinished(const std::string& principal) {
  SQLite::Statement query(database_,
                          "SELECT COUNT(*) FROM jobs WHERE state IN (?, ?) AND principal = ?");
  query.bind(1, static_cast<int>(v1::JOB_QUEUED));
  query.bind(2, static_cast<int>(v1::JOB_RUNNING));
  query.bind(3, principal);
  query.executeStep();
  return query.getColumn(0).getInt64();
}

std::optional<int64_t> JobTable::NextInTurn(double now) {
  SQLite::Statement query(
      database_,
      "SELECT id FROM jobs WHERE state = ? AND (not_before <= ? OR not_before > ?) ORDER BY"
      " (SELECT MAX(turn) FROM jobs AS own WHERE own.principal = jobs.principal), id LIMIT 1");
  query.bind(1, static_cast<int>(v1::JOB_QUEUED));
  query.bind(2, now);
  // A later time is from before the clock was set back.
  query.bind(3, now + kMaxRetryDelaySeconds);
  if (!query.executeStep()) return std::nullopt;
  return query.getColumn(0).getInt64();
}

void JobTable::CountStart(int64_t number) {
  SQLite::Statement update(database_,
                           "UPDATE jobs SET attempts = attempts + 1,"
                           " turn = (SELECT MAX(turn) + 1 FROM jobs) WHERE id = ?");
  update.bind(1, number);
  update.exec();
}

int JobTable::CountFailure(int64_t number) {
  SQLite::Statement update(database_,
                           "UPDATE jobs SET failures = failures + 1 WHERE id = ?"
                           " RETURNING failures");
  update.bind(1, number);
  update.executeStep();
  const int failures = update.getColumn(0).getInt();
  // SQLite applies the update only when the statement has run to its end.
  while (update.executeStep()) {
  }
  return failures;
}

void JobTable::MarkReached(int64_t number, int64_t place) {
  SQLite::Statement update(
      database_, "UPDATE jobs SET reached = ?, failures = 0 WHERE id = ? AND reached < ?");
  update.bind(1, place);
  update.bind(2, number);
  update.bind(3, place);
  update.exec();
}

void JobTable::ForgetAttempts(int64_t number) {
  SQLite::Statement update(database_,
                           "UPDATE jobs SET attempts = 0, failures = 0, reached = 0 WHERE id = ?");
  update.bind(1, number);
  update.exec();
}

void JobTable::Update(int64_t number, const StateChange& change) {
  // The checksum of an empty list of stages is 0.
  SQLite::Statement update(database_,
                           "UPDATE jobs SET state = ?, error = ?, result = ?, finished = ?,"
                           " stages = CASE WHEN ? THEN x'' ELSE stages END,"
                           " stages_crc = CASE WHEN ? THEN 0 ELSE stages_crc END,"
                           " cancel_requested = 0, not_before = ?, result_crc = ? WHERE id = ?");
  const std::string result = change.result != nullptr ? Serialize(*change.result) : "";
  update.bind(1, static_cast<int>(change.state));
  // An error may name a file whose name is not UTF-8, and no such text can be parsed again.
  update.bind(2, ReplaceInvalidUtf8(change.error));
  if (change.result != nullptr) BindBlob(update, 3, result);
  update.bind(4, change.finished);
  update.bind(5, change.clear_stages ? 1 : 0);
  update.bind(6, change.clear_stages ? 1 : 0);
  update.bind(7, change.not_before);
  update.bind(8, int64_t{Crc32c(result)});
  update.bind(9, number);
  update.exec();
}

void JobTable::UpdateStage(const v1::Job& job, int64_t number, const v1::StageProgress& progress) {
  v1::Job stages;
  *stages.mutable_stages() = job.stages();
  ReplaceStage(progress, &stages);
  SQLite::Statement update(database_, "UPDATE jobs SET stages = ?, stages_crc = ? WHERE id = ?");
  const std::string bytes = Serialize(stages);
  BindBlob(update, 1, bytes);
  update.bind(2, int64_t{Crc32c(bytes)});
  update.bind(3, number);
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
  SQLite::Statement insert(database_,
                           "INSERT INTO events(job, number, event, crc) VALUES(?, ?, ?, ?)");
  const std::string bytes = Serialize(event);
  insert.bind(1, number);
  insert.bind(2, event.number());
  BindBlob(insert, 3, bytes);
  insert.bind(4, int64_t{Crc32c(bytes)});
  insert.exec();
}

std::vector<v1::JobEvent> JobTable::EventsAfter(int64_t number, int64_t after, int64_t limit,
                                                int64_t max_bytes) {
  SQLite::Statement query(database_,
                          "SELECT event, crc, number FROM events WHERE job = ? AND number > ?"
                          " ORDER BY number LIMIT ?");
  query.bind(1, number);
  query.bind(2, after);
  query.bind(3, limit);
  std::vector<v1::JobEvent> events;
  for (int64_t bytes = 0; bytes < max_bytes && query.executeStep();) {
    const std::string event = query.getColumn(0).getString();
    bytes += std::ssize(event);
    ParseStored(event, Crc32c(event), query.getColumn(1), JobId(number),
                absl::StrCat("event ", query.getColumn(2).getInt64()).c_str(),
                &events.emplace_back());
  }
  return events;
}

int64_t JobTable::DataVersion() { return database_.execAndGet("PRAGMA data_version").getInt64(); }

bool SameSpec(const v1::CorpusSpec& a, const v1::CorpusSpec& b) {
  return Serialize(a) == Serialize(b);
}

}  // namespace braid
