// The choice of the journal of an SQLite database by the file system that holds it. A write-ahead
// log needs memory that all processes share, which file systems of several hosts do not offer
// (https://sqlite.org/wal.html); a rollback journal only needs locks.
#ifndef BRAID_BASE_DATABASE_JOURNAL_H_
#define BRAID_BASE_DATABASE_JOURNAL_H_

#include <filesystem>
#include <string>

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

}  // namespace braid

#endif  // BRAID_BASE_DATABASE_JOURNAL_H_
