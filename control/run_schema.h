// The tables of runs.sqlite, their versions, and the checksum of a row.
#ifndef BRAID_CONTROL_RUN_SCHEMA_H_
#define BRAID_CONTROL_RUN_SCHEMA_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"

namespace SQLite {
class Database;
class Statement;
}  // namespace SQLite

namespace braid {

// Creates the tables of the database `file` or upgrades those of an older program. Requires a write
// transaction. FailedPrecondition for the database of a newer program. Throws SQLite::Exception.
absl::Status CreateRunTables(const std::filesystem::path& file, SQLite::Database& database);

// Return the checksum of the columns of a run that never change, as the column spec_crc has it;
// `row` is a row with all columns.
int64_t RunRowCrc(const std::string& id, const std::string& request_id, const std::string& spec,
                  const std::string& principal, int64_t ranks, double created);
int64_t RunRowCrc(SQLite::Statement& row);

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_SCHEMA_H_
