#include "pipeline/jobs/job_directories.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>

#include <filesystem>

#include "pipeline/store/stage_store.h"

namespace braid {
namespace {

// This table is not part of a schema version, because programs that do not know it can use the same
// database. It is created with its first row, because a full disk has no space for it.
constexpr char kJobDirectories[] =
    "CREATE TABLE IF NOT EXISTS job_directories("
    "job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE, directory TEXT NOT NULL,"
    "PRIMARY KEY(job, directory)) WITHOUT ROWID";

}  // namespace

std::set<std::string> DirectoriesOf(const v1::Job& job) {
  std::set<std::string> directories;
  const StageStore store("store");
  for (const v1::StageProgress& stage : job.stages()) {
    if (stage.key().size() != 32) continue;
    directories.insert(store.DirectoryOf(stage.stage(), stage.key()).string());
  }
  const std::filesystem::path dataset = job.result().dataset_dir();
  if (dataset.has_filename()) directories.insert(("store" / dataset.filename()).string());
  return directories;
}

void KeepDirectories(SQLite::Database& database, int64_t number,
                     const std::set<std::string>& directories) {
  if (directories.empty()) return;
  database.exec(kJobDirectories);
  SQLite::Statement insert(database,
                           "INSERT OR IGNORE INTO job_directories(job, directory) VALUES(?, ?)");
  for (const std::string& directory : directories) {
    insert.bind(1, number);
    insert.bind(2, directory);
    insert.exec();
    insert.reset();
  }
}

std::map<int64_t, std::set<std::string>> KeptDirectories(SQLite::Database& database) {
  std::map<int64_t, std::set<std::string>> kept;
  if (!database.tableExists("job_directories")) return kept;
  SQLite::Statement query(database, "SELECT job, directory FROM job_directories");
  while (query.executeStep()) {
    kept[query.getColumn(0).getInt64()].insert(query.getColumn(1).getString());
  }
  return kept;
}

}  // namespace braid
