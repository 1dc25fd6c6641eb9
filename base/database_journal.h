// The choice of the journal of an SQLite database by the file system that holds it. A write-ahead
// log needs memory that all processes share, which file systems of several hosts do not offer
// (https://sqlite.org/wal.html); a rollback journal only needs locks.
#ifndef BRAID_BASE_DATABASE_JOURNAL_H_
#define BRAID_BASE_DATABASE_JOURNAL_H_

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace braid {

struct DatabaseJournal {
  bool write_ahead = true;
  // The file system and the reason for this journal, for messages: "nfs may be shared by hosts:
  // ...".
  std::string reason;
};

// Chooses the journal of databases in `directory` by the type of its file system and by a probe
// that maps and locks a file there. FAILED_PRECONDITION, with what to do, where locks do not work;
// the errors of SystemError when the probe cannot be written.
absl::StatusOr<DatabaseJournal> ChooseJournal(const std::filesystem::path& directory);

// Returns the statements that a new connection to the database `file` executes, before any others.
// They convert a database that has the other journal.
std::string JournalPragmas(const std::filesystem::path& file, const DatabaseJournal& journal);

// Executes these statements on a new connection, an SQLite::Database with `busy_timeout_ms`. SQLite
// does not wait for that long when two programs change the journal at a time, as when both create
// the database, so they are repeated here. Throws SQLite::Exception.
template <class Database>
void SetJournal(const std::filesystem::path& file, const DatabaseJournal& journal,
                int busy_timeout_ms, Database* database) {
  constexpr int kOk = 0, kBusy = 5;  // SQLITE_OK, SQLITE_BUSY
  const std::string pragmas = JournalPragmas(file, journal);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(busy_timeout_ms);
  int code = database->tryExec(pragmas);
  while (code == kBusy && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    code = database->tryExec(pragmas);
  }
  if (code != kOk) database->exec(pragmas);
}

}  // namespace braid

#endif  // BRAID_BASE_DATABASE_JOURNAL_H_
