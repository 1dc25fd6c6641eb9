#include "control/run_schema.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <bit>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"

namespace braid {
namespace {

// Version 1 did not store its version number.
constexpr char kVersion1[] =
    "CREATE TABLE IF NOT EXISTS runs ("
    "number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, request_id TEXT UNIQUE,"
    "spec BLOB NOT NULL, run_dir TEXT NOT NULL, created REAL NOT NULL)";
// All runs count as active until RunKeeper finds that they have ended.
constexpr char kVersion2[] =
    "ALTER TABLE runs ADD COLUMN principal TEXT NOT NULL DEFAULT 'local';"
    "ALTER TABLE runs ADD COLUMN ranks INTEGER NOT NULL DEFAULT 1;"
    "ALTER TABLE runs ADD COLUMN launches INTEGER NOT NULL DEFAULT 1;"
    "ALTER TABLE runs ADD COLUMN active INTEGER NOT NULL DEFAULT 1;"
    "CREATE INDEX runs_by_active ON runs(active, number);"
    "PRAGMA user_version=2";
// A checksum of the spec alone.
constexpr char kVersion3[] =
    "ALTER TABLE runs ADD COLUMN spec_crc INTEGER NOT NULL DEFAULT -1;"
    "PRAGMA user_version=3";
// From here on the checksum covers all columns that do not change, and every row has one.
constexpr char kVersion4[] = "PRAGMA user_version=4";
constexpr int kSchemaVersion = 4;
constexpr int64_t kNoCrc = -1;  // in rows of versions before 3, which stored none
// This table is not part of a schema version, because programs that do not know it can use the same
// database. `removed`: the run directory is completely removed.
constexpr char kDeletedRuns[] =
    "CREATE TABLE IF NOT EXISTS deleted_runs ("
    "number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, request_id TEXT UNIQUE,"
    "created REAL NOT NULL, principal TEXT NOT NULL, deleted REAL NOT NULL,"
    "deleted_by TEXT NOT NULL, removed INTEGER NOT NULL DEFAULT 0)";

// Gives each row the checksum of version 4, except rows that the checksum of version 3 shows to be
// damaged: those keep it and so remain damaged.
void SealRows(SQLite::Database& database) {
  SQLite::Statement rows(database, "SELECT * FROM runs");
  SQLite::Statement update(database, "UPDATE runs SET spec_crc = ? WHERE number = ?");
  while (rows.executeStep()) {
    const int64_t stored = rows.getColumn("spec_crc").getInt64();
    if (stored != kNoCrc && stored != int64_t{Crc32c(rows.getColumn("spec").getString())}) continue;
    update.bind(1, RunRowCrc(rows));
    update.bind(2, rows.getColumn("number").getInt64());
    update.exec();
    update.reset();
  }
}

}  // namespace

int64_t RunRowCrc(const std::string& id, const std::string& request_id, const std::string& spec,
                  const std::string& principal, int64_t ranks, double created) {
  // With the lengths, two different rows never give the same text.
  return Crc32c(absl::StrCat(id, " ", request_id.size(), " ", request_id, principal.size(), " ",
                             principal, ranks, " ", std::bit_cast<uint64_t>(created), " ", spec));
}

int64_t RunRowCrc(SQLite::Statement& row) {
  return RunRowCrc(row.getColumn("id").getString(), row.getColumn("request_id").getString(),
                   row.getColumn("spec").getString(), row.getColumn("principal").getString(),
                   row.getColumn("ranks").getInt64(), row.getColumn("created").getDouble());
}

absl::Status CreateRunTables(const std::filesystem::path& file, SQLite::Database& database) {
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  if (version > kSchemaVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(file.string(), ": schema version: got ", version, ", expected at most ",
                     kSchemaVersion, "; use a newer braid or another --home"));
  }
  if (version < 1) database.exec(kVersion1);
  if (version < 2) database.exec(kVersion2);
  if (version < 3) database.exec(kVersion3);
  if (version < 4) {
    SealRows(database);
    database.exec(kVersion4);
  }
  database.exec(kDeletedRuns);
  return absl::OkStatus();
}

}  // namespace braid
