#include "control/run_store.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/database_error.h"
#include "base/database_journal.h"
#include "base/status_macros.h"
#include "control/run_schema.h"
#include "rpc/request_id.h"

namespace braid {
namespace {

constexpr int kBusyTimeoutMs = 30000;
// Selects what BindRequest names.
constexpr char kOfRequest[] = " WHERE request_id = ? OR (request_id = ? AND principal = ?)";

void BindRequest(const std::string& request_id, const std::string& principal,
                 SQLite::Statement* query) {
  query->bind(1, RequestKey(principal, request_id));
  query->bind(2, request_id);  // as older programs stored it
  query->bind(3, principal);
}

std::string IdOf(int64_t number) { return absl::StrFormat("run-%06d", number); }

// Returns the number in the id of a run, which may have been deleted; nullopt for any other string.
std::optional<int64_t> RunNumber(const std::string& id) {
  int64_t number = 0;
  const bool parsed = id.starts_with("run-") && absl::SimpleAtoi(id.substr(4), &number);
  return parsed && IdOf(number) == id ? std::optional(number) : std::nullopt;
}

absl::Status UnknownRun(const std::string& id, const std::filesystem::path& home) {
  return absl::NotFoundError(absl::StrCat("run \"", id, "\" does not exist in ", home.string(),
                                          "; list them with: braid runs"));
}

std::filesystem::path RunDatabasePath(const std::filesystem::path& state) {
  return state / "runs.sqlite";
}

absl::Status RunDatabaseError(const SQLite::Exception& error, const std::filesystem::path& file) {
  return DatabaseError(file, error.getErrorCode(), error.what(),
                       "restore it from a backup, or move the file away to start with an empty "
                       "list of runs, which leaves their directories as they are");
}

// The run directory follows from `home`, which may have been moved or restored elsewhere since the
// column run_dir was written. A damaged row belongs to no one.
RunRecord RecordOf(SQLite::Statement& row, const std::filesystem::path& home) {
  const std::string id = row.getColumn("id").getString();
  RunRecord record = {.id = id,
                      .run_dir = home / "runs" / id,
                      .launches = row.getColumn("launches").getInt64(),
                      .active = row.getColumn("active").getInt() != 0};
  record.damaged = row.getColumn("spec_crc").getInt64() != RunRowCrc(row);
  if (record.damaged) return record;
  record.created = row.getColumn("created").getDouble();
  record.principal = row.getColumn("principal").getString();
  return record;
}

// BEGIN IMMEDIATE takes the write lock first, so two programs that launch at once
// wait for each other instead of failing at their first write.
class WriteTransaction {
 public:
  explicit WriteTransaction(SQLite::Database& database) : database_(database) {
    database_.exec("BEGIN IMMEDIATE");
  }
  ~WriteTransaction() {
    // Fails without harm where SQLite has rolled back itself, as after some errors of the disk.
    if (!done_) database_.tryExec("ROLLBACK");
  }
  void Commit() {
    database_.exec("COMMIT");
    done_ = true;
  }

 private:
  SQLite::Database& database_;
  bool done_ = false;
};

}  // namespace

class RunStore::Impl {
 public:
  Impl(std::filesystem::path home_path, const std::filesystem::path& state,
       const DatabaseJournal& journal)
      : home(std::move(home_path)),
        file(RunDatabasePath(state)),
        database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyTimeoutMs) {
    SetJournal(file, journal, kBusyTimeoutMs, &database);
  }

  // Runs `body` under the lock and converts exceptions of SQLite into a status.
  template <class Body>
  auto Guarded(Body body) -> decltype(body()) {
    std::lock_guard lock(mutex);
    try {
      return body();
    } catch (const SQLite::Exception& error) {
      return RunDatabaseError(error, file);
    }
  }

  absl::Status CreateTables();
  absl::StatusOr<RunRecord> Create(const std::string& request_id, const std::string& spec,
                                   double now, const RunOwner& owner);
  absl::StatusOr<RunRecord> Relaunch(const std::string& id, const RunOwner& limits);
  absl::StatusOr<RunRecord> Get(const std::string& id);
  std::vector<RunRecord> Rows(SQLite::Statement& query);
  absl::Status CheckQuota(const RunOwner& owner);
  absl::StatusOr<RunRecord> IntactRecordOf(SQLite::Statement& row) const;
  absl::StatusOr<std::optional<RunRecord>> Find(const std::string& request_id,
                                                const std::string& spec,
                                                const std::string& principal);
  absl::Status Delete(const RunRecord& record, const std::string& by, double now);
  int64_t UnusedNumber();

  const std::filesystem::path home;
  const std::filesystem::path file;
  std::mutex mutex;
  SQLite::Database database;
};

// Returns the record of a row. DataLoss when it is not as it was written.
absl::StatusOr<RunRecord> RunStore::Impl::IntactRecordOf(SQLite::Statement& row) const {
  RunRecord record = RecordOf(row, home);
  if (!record.damaged) return record;
  return absl::DataLossError(absl::StrCat(file.string(), ": the record of ", record.id,
                                          " (owner, ranks, spec) is damaged, but not ",
                                          record.run_dir.string(),
                                          "; restore the database from a backup, or repeat the "
                                          "launch with a new request_id"));
}

absl::StatusOr<std::optional<RunRecord>> RunStore::Impl::Find(const std::string& request_id,
                                                              const std::string& spec,
                                                              const std::string& principal) {
  if (request_id.empty()) return std::nullopt;
  SQLite::Statement query(database, absl::StrCat("SELECT * FROM runs", kOfRequest));
  BindRequest(request_id, principal, &query);
  if (query.executeStep()) {
    ASSIGN_OR_RETURN(RunRecord record, IntactRecordOf(query));
    if (query.getColumn("spec").getString() == spec) return record;
    return absl::AlreadyExistsError(
        absl::StrCat("request_id \"", request_id, "\" belongs to ", record.id,
                     ", which has another spec; use a new request_id for a new run"));
  }
  // A repeated request must not launch a deleted run again.
  SQLite::Statement deleted(database, absl::StrCat("SELECT id FROM deleted_runs", kOfRequest));
  BindRequest(request_id, principal, &deleted);
  if (!deleted.executeStep()) return std::nullopt;
  return absl::AlreadyExistsError(absl::StrCat("request_id \"", request_id, "\" belongs to ",
                                               deleted.getColumn(0).getString(),
                                               ", which was deleted; use a new request_id"));
}

absl::Status RunStore::Impl::Delete(const RunRecord& record, const std::string& by, double now) {
  WriteTransaction transaction(database);
  ASSIGN_OR_RETURN(const RunRecord current, Get(record.id));
  if (current.launches != record.launches) {
    return absl::FailedPreconditionError(absl::StrCat(record.id, " was resumed; stop it first"));
  }
  SQLite::Statement insert(database,
                           "INSERT INTO deleted_runs(number, id, request_id, created, principal,"
                           " deleted, deleted_by) SELECT number, id, request_id, created,"
                           " principal, ?, ? FROM runs WHERE id = ?");
  insert.bind(1, now);
  insert.bind(2, by);
  insert.bind(3, record.id);
  insert.exec();
  SQLite::Statement remove(database, "DELETE FROM runs WHERE id = ?");
  remove.bind(1, record.id);
  remove.exec();
  transaction.Commit();
  return absl::OkStatus();
}

// Skips the directories of runs that a lost database contained.
int64_t RunStore::Impl::UnusedNumber() {
  int64_t number = database
                       .execAndGet(
                           "SELECT COALESCE(MAX(number), 0) + 1 FROM (SELECT number FROM runs"
                           " UNION ALL SELECT number FROM deleted_runs)")
                       .getInt64();
  std::error_code error;
  while (std::filesystem::exists(home / "runs" / IdOf(number), error)) ++number;
  return number;
}

absl::Status RunStore::Impl::CreateTables() {
  WriteTransaction transaction(database);
  RETURN_IF_ERROR(CreateRunTables(file, database));
  transaction.Commit();
  return absl::OkStatus();
}

absl::Status RunStore::Impl::CheckQuota(const RunOwner& owner) {
  SQLite::Statement query(database,
                          "SELECT COUNT(*), COALESCE(SUM(ranks), 0) FROM runs"
                          " WHERE active = 1 AND principal = ?");
  query.bind(1, owner.principal);
  query.executeStep();
  const int64_t runs = query.getColumn(0).getInt64(), ranks = query.getColumn(1).getInt64();
  if (owner.max_runs > 0 && runs >= owner.max_runs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("runs of ", owner.principal, ": ", runs, " are active, the limit is ",
                     owner.max_runs, "; wait for a run to end, stop one, or raise --quota-runs"));
  }
  if (owner.max_ranks > 0 && ranks + owner.ranks > owner.max_ranks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("ranks of ", owner.principal, ": ", ranks, " are active and ", owner.ranks,
                     " more requested, the limit is ", owner.max_ranks,
                     "; use a smaller world_size, stop a run, or raise --quota-ranks"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RunRecord> RunStore::Impl::Create(const std::string& request_id,
                                                 const std::string& spec, double now,
                                                 const RunOwner& owner) {
  WriteTransaction transaction(database);
  // Before the quota: a repeated request returns its run also at the limit. All is checked in the
  // transaction, so that of two launches only one gets the last place.
  ASSIGN_OR_RETURN(std::optional<RunRecord> known, Find(request_id, spec, owner.principal));
  if (known.has_value()) return *std::move(known);
  RETURN_IF_ERROR(CheckQuota(owner));
  const int64_t number = UnusedNumber();
  SQLite::Statement insert(database,
                           "INSERT INTO runs(number, id, request_id, spec, run_dir, created,"
                           " principal, ranks, spec_crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, number);
  insert.bind(2, IdOf(number));
  const std::string key = request_id.empty() ? "" : RequestKey(owner.principal, request_id);
  if (!key.empty()) insert.bind(3, key);
  insert.bind(4, spec.data(), static_cast<int>(spec.size()));
  insert.bind(5, (home / "runs" / IdOf(number)).string());
  insert.bind(6, now);
  insert.bind(7, owner.principal);
  insert.bind(8, owner.ranks);
  insert.bind(9, RunRowCrc(IdOf(number), key, spec, owner.principal, owner.ranks, now));
  insert.exec();
  transaction.Commit();
  return Get(IdOf(number));
}

absl::StatusOr<RunRecord> RunStore::Impl::Get(const std::string& id) {
  SQLite::Statement query(database, "SELECT * FROM runs WHERE id = ?");
  query.bind(1, id);
  if (query.executeStep()) return IntactRecordOf(query);
  return UnknownRun(id, home);
}

absl::StatusOr<RunRecord> RunStore::Impl::Relaunch(const std::string& id, const RunOwner& limits) {
  WriteTransaction transaction(database);
  ASSIGN_OR_RETURN(const RunRecord record, Get(id));
  // An active run is in the counts already.
  if (!record.active) {
    SQLite::Statement query(database, "SELECT ranks FROM runs WHERE id = ?");
    query.bind(1, id);
    query.executeStep();
    RunOwner owner = limits;
    owner.principal = record.principal;
    owner.ranks = query.getColumn(0).getInt64();
    RETURN_IF_ERROR(CheckQuota(owner));
  }
  SQLite::Statement update(database,
                           "UPDATE runs SET active = 1, launches = launches + 1 WHERE id = ?");
  update.bind(1, id);
  update.exec();
  transaction.Commit();
  return Get(id);
}

std::vector<RunRecord> RunStore::Impl::Rows(SQLite::Statement& query) {
  std::vector<RunRecord> records;
  while (query.executeStep()) records.push_back(RecordOf(query, home));
  return records;
}

absl::StatusOr<std::unique_ptr<RunStore>> RunStore::Open(const std::filesystem::path& home,
                                                         const std::filesystem::path& state) {
  const std::filesystem::path absolute = std::filesystem::absolute(home).lexically_normal();
  const std::filesystem::path lists =
      state.empty() ? absolute : std::filesystem::absolute(state).lexically_normal();
  RETURN_IF_ERROR(MakeDirectories(absolute / "runs"));
  RETURN_IF_ERROR(MakeDirectories(lists));
  try {
    ASSIGN_OR_RETURN(const DatabaseJournal journal, ChooseJournal(lists));
    auto impl = std::make_unique<Impl>(absolute, lists, journal);
    RETURN_IF_ERROR(impl->CreateTables());
    return std::unique_ptr<RunStore>(new RunStore(std::move(impl)));
  } catch (const SQLite::Exception& error) {
    return RunDatabaseError(error, RunDatabasePath(lists));
  }
}

RunStore::RunStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunStore::~RunStore() = default;

absl::StatusOr<RunRecord> RunStore::Create(const std::string& request_id, const std::string& spec,
                                           double now, const RunOwner& owner) {
  return impl_->Guarded([&] { return impl_->Create(request_id, spec, now, owner); });
}

absl::StatusOr<std::optional<RunRecord>> RunStore::Find(const std::string& request_id,
                                                        const std::string& spec,
                                                        const std::string& principal) const {
  return impl_->Guarded([&] { return impl_->Find(request_id, spec, principal); });
}

absl::StatusOr<RunRecord> RunStore::Relaunch(const std::string& id, const RunOwner& limits) {
  return impl_->Guarded([&] { return impl_->Relaunch(id, limits); });
}

absl::Status RunStore::Settle(const RunRecord& record) {
  return impl_->Guarded([&] {
    SQLite::Statement update(impl_->database,
                             "UPDATE runs SET active = 0 WHERE id = ? AND launches = ?");
    update.bind(1, record.id);
    update.bind(2, record.launches);
    update.exec();
    return absl::OkStatus();
  });
}

absl::Status RunStore::Delete(const RunRecord& record, const std::string& by, double now) {
  return impl_->Guarded([&] { return impl_->Delete(record, by, now); });
}

absl::StatusOr<std::vector<std::string>> RunStore::UnfinishedDeletions() const {
  return impl_->Guarded([&]() -> absl::StatusOr<std::vector<std::string>> {
    SQLite::Statement query(impl_->database,
                            "SELECT id FROM deleted_runs WHERE removed = 0 ORDER BY number");
    std::vector<std::string> ids;
    while (query.executeStep()) ids.push_back(query.getColumn(0).getString());
    return ids;
  });
}

absl::Status RunStore::FinishDeletion(const std::string& id) {
  return impl_->Guarded([&] {
    SQLite::Statement update(impl_->database, "UPDATE deleted_runs SET removed = 1 WHERE id = ?");
    update.bind(1, id);
    update.exec();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> RunStore::SpecOf(const std::string& id) const {
  return impl_->Guarded([&]() -> absl::StatusOr<std::string> {
    RETURN_IF_ERROR(impl_->Get(id).status());
    SQLite::Statement query(impl_->database, "SELECT spec FROM runs WHERE id = ?");
    query.bind(1, id);
    query.executeStep();
    return query.getColumn(0).getString();
  });
}

absl::StatusOr<RunRecord> RunStore::Get(const std::string& id) const {
  return impl_->Guarded([&] { return impl_->Get(id); });
}

absl::StatusOr<std::vector<RunRecord>> RunStore::Active() const {
  return impl_->Guarded([&]() -> absl::StatusOr<std::vector<RunRecord>> {
    SQLite::Statement query(impl_->database, "SELECT * FROM runs WHERE active = 1 ORDER BY number");
    return impl_->Rows(query);
  });
}

absl::StatusOr<std::vector<RunRecord>> RunStore::List(const std::string& before,
                                                      int64_t limit) const {
  const std::optional<int64_t> end =
      before.empty() ? std::numeric_limits<int64_t>::max() : RunNumber(before);
  if (!end.has_value()) return UnknownRun(before, impl_->home);
  return impl_->Guarded([&]() -> absl::StatusOr<std::vector<RunRecord>> {
    SQLite::Statement query(impl_->database,
                            "SELECT * FROM runs WHERE number < ? ORDER BY number DESC LIMIT ?");
    query.bind(1, *end);
    query.bind(2, limit);
    return impl_->Rows(query);
  });
}

}  // namespace braid
