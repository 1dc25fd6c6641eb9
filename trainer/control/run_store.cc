#include "trainer/control/run_store.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "formats/atomic_file.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

constexpr int kBusyTimeoutMs = 10000;
constexpr char kSchema[] =
    "CREATE TABLE IF NOT EXISTS runs ("
    "number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, request_id TEXT UNIQUE,"
    "spec BLOB NOT NULL, run_dir TEXT NOT NULL, created REAL NOT NULL)";

std::string IdOf(int64_t number) { return absl::StrFormat("run-%06d", number); }

RunRecord RecordOf(SQLite::Statement& row) {
  return {.id = row.getColumn("id").getString(),
          .run_dir = row.getColumn("run_dir").getString(),
          .created = row.getColumn("created").getDouble()};
}

// BEGIN IMMEDIATE takes the write lock first, so two programs that launch at once
// queue up instead of failing at their first write.
class WriteTransaction {
 public:
  explicit WriteTransaction(SQLite::Database& database) : database_(database) {
    database_.exec("BEGIN IMMEDIATE");
  }
  ~WriteTransaction() {
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
  Impl(std::filesystem::path home_path)
      : home(std::move(home_path)),
        file(home / "runs.sqlite"),
        database(file.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyTimeoutMs) {
    database.exec("PRAGMA journal_mode=WAL");
    database.exec("PRAGMA synchronous=FULL");
    database.exec(kSchema);
  }

  // Runs `body` under the lock, and turns what SQLite throws into a status.
  template <class Body>
  auto Guarded(Body body) -> decltype(body()) {
    std::lock_guard lock(mutex);
    try {
      return body();
    } catch (const SQLite::Exception& error) {
      return absl::UnavailableError(absl::StrCat(file.string(), ": ", error.what()));
    }
  }

  absl::StatusOr<RunRecord> Create(const std::string& request_id, const std::string& spec,
                                   double now);
  std::optional<RunRecord> OfRequest(const std::string& request_id, std::string* spec);
  int64_t UnusedNumber();

  const std::filesystem::path home;
  const std::filesystem::path file;
  std::mutex mutex;
  SQLite::Database database;
};

std::optional<RunRecord> RunStore::Impl::OfRequest(const std::string& request_id,
                                                   std::string* spec) {
  SQLite::Statement query(database, "SELECT * FROM runs WHERE request_id = ?");
  query.bind(1, request_id);
  if (!query.executeStep()) return std::nullopt;
  *spec = query.getColumn("spec").getString();
  return RecordOf(query);
}

// Skips the directories of runs that a lost data base knew.
int64_t RunStore::Impl::UnusedNumber() {
  int64_t number = database.execAndGet("SELECT COALESCE(MAX(number), 0) + 1 FROM runs").getInt64();
  std::error_code error;
  while (std::filesystem::exists(home / "runs" / IdOf(number), error)) ++number;
  return number;
}

absl::StatusOr<RunRecord> RunStore::Impl::Create(const std::string& request_id,
                                                 const std::string& spec, double now) {
  WriteTransaction transaction(database);
  std::string first_spec;
  if (std::optional<RunRecord> record =
          request_id.empty() ? std::nullopt : OfRequest(request_id, &first_spec)) {
    if (first_spec == spec) return *std::move(record);
    return absl::AlreadyExistsError(
        absl::StrCat("request_id \"", request_id, "\" belongs to ", record->id,
                     ", which has another spec; use a new request_id for a new run"));
  }
  const int64_t number = UnusedNumber();
  RunRecord record{.id = IdOf(number), .run_dir = home / "runs" / IdOf(number), .created = now};
  SQLite::Statement insert(database, "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)");
  insert.bind(1, number);
  insert.bind(2, record.id);
  if (!request_id.empty()) insert.bind(3, request_id);
  insert.bind(4, spec.data(), static_cast<int>(spec.size()));
  insert.bind(5, record.run_dir.string());
  insert.bind(6, now);
  insert.exec();
  transaction.Commit();
  return record;
}

absl::StatusOr<std::unique_ptr<RunStore>> RunStore::Open(const std::filesystem::path& home) {
  const std::filesystem::path absolute = std::filesystem::absolute(home).lexically_normal();
  RETURN_IF_ERROR(MakeDirectories(absolute / "runs"));
  try {
    return std::unique_ptr<RunStore>(new RunStore(std::make_unique<Impl>(absolute)));
  } catch (const SQLite::Exception& error) {
    return absl::FailedPreconditionError(absl::StrCat(
        (absolute / "runs.sqlite").string(), ": cannot open the list of runs: ", error.what(),
        "; check that the directory can be written, or pass --home"));
  }
}

RunStore::RunStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunStore::~RunStore() = default;

absl::StatusOr<RunRecord> RunStore::Create(const std::string& request_id, const std::string& spec,
                                           double now) {
  return impl_->Guarded([&] { return impl_->Create(request_id, spec, now); });
}

absl::StatusOr<RunRecord> RunStore::Get(const std::string& id) const {
  return impl_->Guarded([&]() -> absl::StatusOr<RunRecord> {
    SQLite::Statement query(impl_->database, "SELECT * FROM runs WHERE id = ?");
    query.bind(1, id);
    if (query.executeStep()) return RecordOf(query);
    return absl::NotFoundError(absl::StrCat("there is no run \"", id, "\" in ",
                                            impl_->home.string(), "; `braid runs` lists them"));
  });
}

absl::StatusOr<std::vector<RunRecord>> RunStore::List() const {
  return impl_->Guarded([&]() -> absl::StatusOr<std::vector<RunRecord>> {
    std::vector<RunRecord> records;
    SQLite::Statement query(impl_->database, "SELECT * FROM runs ORDER BY number DESC");
    while (query.executeStep()) records.push_back(RecordOf(query));
    return records;
  });
}

}  // namespace braid
