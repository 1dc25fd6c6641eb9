// Everything that is stored and decides what a run does: a changed byte is an error that names the
// file, and never another setting. stored_spec_job_test tests what is stored of a job.
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "control/launch/mpirun_command.h"
#include "control/launch/scheduler.h"
#include "control/run_store.h"
#include "control/supervision/attempt_process.h"
#include "control/supervision/run_history.h"
#include "google/protobuf/util/message_differencer.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/stored_bytes.h"

namespace braid {
namespace stored_spec_test {

namespace fs = std::filesystem;
using google::protobuf::util::MessageDifferencer;
using testing::AllOf;
using testing::HasSubstr;

class StoredSpecTest : public testing::Test {
 protected:
  fs::path Home() const { return scratch_.path() / "home"; }
  RunDirectory Run() const { return RunDirectory(scratch_.path() / "run"); }

  static void Write(const fs::path& path, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomically(path, bytes, Durability::kRenamed).ok());
  }

  // Changes every byte of a file and calls `read`, which must return an error that names the file,
  // or the text that it returns for the file as written.
  static void ExpectNoOtherContent(const fs::path& path,
                                   const std::function<absl::StatusOr<std::string>()>& read) {
    const std::string bytes = *ReadFile(path);
    const auto intact = read();
    ASSERT_TRUE(intact.ok()) << intact.status();
    ForEachChange(bytes, [&](const std::string& changed, size_t at) {
      Write(path, changed);
      const auto got = read();
      if (got.ok()) {
        EXPECT_EQ(*got, *intact) << path << " at byte " << at << ":\n" << changed;
      } else {
        EXPECT_THAT(std::string(got.status().message()), HasSubstr(path.string()));
      }
    });
    Write(path, bytes);
  }

  const ScratchDirectory scratch_;
};

TEST_F(StoredSpecTest, EveryByteOfARunSpecIsCovered) {
  v1::RunSpec spec;
  Fill(&spec);
  const RunDirectory run = Run();
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(run.ReadSpec().value(), spec));
  const std::string bytes = *ReadFile(run.spec());
  const auto expect_error = [&](const std::string& text, size_t at) {
    Write(run.spec(), text);
    const absl::Status status = run.ReadSpec().status();
    EXPECT_FALSE(status.ok()) << "byte " << at;
    EXPECT_THAT(std::string(status.message()), HasSubstr(run.spec().string()));
  };
  ForEachChange(bytes, expect_error);
  for (size_t size = 0; size < bytes.size(); ++size) expect_error(bytes.substr(0, size), size);
}

TEST_F(StoredSpecTest, EditByHandIsRefusedUntilItIsMarkedAsOne) {
  v1::RunSpec spec;
  Fill(&spec);
  const RunDirectory run = Run();
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  const std::string edited = absl::StrReplaceAll(
      *ReadFile(run.spec()), {{"learning_rate: 0.006", "learning_rate: 0.004"}});
  Write(run.spec(), edited);
  EXPECT_THAT(
      std::string(run.ReadSpec().status().message()),
      AllOf(HasSubstr("edited"), HasSubstr("delete its first line"), HasSubstr("its last line")));
  EXPECT_FALSE(run.SealSpec().ok());

  const size_t first = edited.find('\n') + 1;
  const size_t last = edited.rfind('\n', edited.size() - 2) + 1;
  Write(run.spec(), edited.substr(first));
  EXPECT_FALSE(run.ReadSpec().ok()) << "only the first line was deleted";
  Write(run.spec(), edited.substr(first, last - first));
  EXPECT_EQ(run.ReadSpec().value().optimizer().learning_rate(), 0.004);
  ASSERT_TRUE(run.SealSpec().ok());
  EXPECT_EQ(*ReadFile(run.spec()), edited.substr(0, last) + ReadFile(run.spec())->substr(last));
  EXPECT_EQ(run.ReadSpec().value().optimizer().learning_rate(), 0.004);
  Write(run.spec(), absl::StrReplaceAll(*ReadFile(run.spec()), {{"0.004", "0.005"}}));
  EXPECT_FALSE(run.ReadSpec().ok());
}

TEST_F(StoredSpecTest, LaunchFilesAreCovered) {
  const RunDirectory run = Run();
  fs::create_directories(run.root());
  Write(run.launch(), LaunchJson({.arguments = {"/usr/bin/mpirun", "-n", "4", "trainer"},
                                  .variables = {{"OMP_NUM_THREADS", "2"}}},
                                 "node-a slots=2\nnode-b slots=2\n"));
  Write(HostfileOf(run.root()), "node-a slots=2\nnode-b slots=2\n");
  const auto read_launch = [&]() -> absl::StatusOr<std::string> {
    const absl::StatusOr<LaunchCommand> command = ReadLaunchCommand(run);
    if (!command.ok()) return command.status();
    std::string text;
    for (const auto& part : command->arguments) absl::StrAppend(&text, part, "\n");
    for (const auto& part : command->variables) absl::StrAppend(&text, part, "\n");
    return text;
  };
  ExpectNoOtherContent(run.launch(), read_launch);
  // Each attempt starts mpirun with the file.
  ForEachChange(*ReadFile(HostfileOf(run.root())), [&](const std::string& changed, size_t at) {
    Write(HostfileOf(run.root()), changed);
    const absl::Status status = read_launch().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(HostfileOf(run.root()).string()), HasSubstr("braid resume run")));
  });
  ProcessRecord supervisor;
  supervisor.identity.pid = 12;
  supervisor.identity.start_time = 345;
  supervisor.identity.boot_id = "boot";
  supervisor.nonce = "abcdef";
  supervisor.launched_at = 12.25;
  ASSERT_TRUE(WriteProcessRecord(run.process(), supervisor).ok());
  ExpectNoOtherContent(run.process(), [&]() -> absl::StatusOr<std::string> {
    const absl::StatusOr<ProcessRecord> record = ReadProcessRecord(run.process());
    if (!record.ok()) return record.status();
    return absl::StrCat(record->identity.pid, " ", record->identity.start_time, " ", record->nonce,
                        " ", record->launched_at);
  });
}

TEST_F(StoredSpecTest, RecordsOfARunAreCovered) {
  const RunDirectory run = Run();
  fs::create_directories(run.root());
  const auto unreadable = [](const fs::path& path) {
    return absl::DataLossError(absl::StrCat(path.string(), ": unreadable"));
  };
  SchedulerRecord submitted;
  submitted.backend = v1::SLURM;
  submitted.job_name = "braid-run-1";
  submitted.job = "17";
  ASSERT_TRUE(WriteSchedulerRecord(run, submitted).ok());
  ExpectNoOtherContent(SchedulerFile(run), [&]() -> absl::StatusOr<std::string> {
    const auto record = ReadSchedulerRecord(run);
    EXPECT_EQ(CheckSchedulerRecord(run).ok(), record.has_value());
    if (!record) return CheckSchedulerRecord(run);
    return absl::StrCat(record->job_name, " ", record->job, " ", record->submitted_at);
  });
  ASSERT_TRUE(
      run.WriteExit({.outcome = std::string(kStopped), .error = "cause", .step = 150}).ok());
  ExpectNoOtherContent(run.exit(), [&]() -> absl::StatusOr<std::string> {
    const auto record = run.ReadExit();
    if (!record) return unreadable(run.exit());
    return absl::StrCat(record->outcome, record->error, record->step, record->retryable);
  });
  RunHistory history;
  history.nonce = "abc";
  history.restarts = 2;
  ASSERT_TRUE(WriteRunHistory(run.supervision(), history, Durability::kRenamed).ok());
  ExpectNoOtherContent(run.supervision(), [&]() -> absl::StatusOr<std::string> {
    const auto read = ReadRunHistory(run.supervision());
    if (!read) return unreadable(run.supervision());
    return absl::StrCat(read->nonce, read->restarts, read->newest_step);
  });
}

TEST_F(StoredSpecTest, StoredSpecOfARunIsCovered) {
  v1::RunSpec spec;
  Fill(&spec);
  const auto store = RunStore::Open(Home()).value();
  const std::string bytes = spec.SerializeAsString();
  const std::string id = store->Create("request", bytes, 1).value().id;
  SQLite::Database database((Home() / "runs.sqlite").string(), SQLite::OPEN_READWRITE, 10000);
  ForEachChange(bytes, [&](const std::string& changed, size_t at) {
    SQLite::Statement update(database, "UPDATE runs SET spec = ?");
    update.bind(1, static_cast<const void*>(changed.data()), static_cast<int>(changed.size()));
    update.exec();
    const absl::Status status = store->Create("request", bytes, 2).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("runs.sqlite"), HasSubstr(id)));
  });
}

TEST_F(StoredSpecTest, OwnerRanksAndTimeOfARunAreCovered) {
  const auto store = RunStore::Open(Home()).value();
  const std::string id =
      store->Create("request", "spec", 1, {.principal = "ann", .ranks = 2}).value().id;
  SQLite::Database database((Home() / "runs.sqlite").string(), SQLite::OPEN_READWRITE, 10000);
  for (const std::string change : {"principal = 'anm'", "ranks = 3", "created = 2",
                                   "request_id = 'requesu'", "spec_crc = -1"}) {
    database.exec("CREATE TEMP TABLE intact AS SELECT * FROM runs");
    database.exec("UPDATE runs SET " + change);
    const absl::Status status = store->Get(id).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << change << ": " << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("runs.sqlite"), HasSubstr(id)));
    EXPECT_FALSE(store->SpecOf(id).ok()) << change;
    EXPECT_FALSE(store->Relaunch(id).ok()) << change;
    const std::vector<RunRecord> list = store->List().value();
    ASSERT_EQ(list.size(), 1u) << "the other runs are listed";
    EXPECT_TRUE(list[0].damaged) << change;
    EXPECT_EQ(list[0].principal, "") << "no one's, so that only operators may manage it";
    database.exec("DELETE FROM runs; INSERT INTO runs SELECT * FROM intact; DROP TABLE intact");
    EXPECT_TRUE(store->Get(id).ok());
  }
}

TEST_F(StoredSpecTest, RunsOfOlderDatabasesAreSealedUnlessTheyAreDamaged) {
  {
    const auto store = RunStore::Open(Home()).value();
    for (const char* const request : {"unsealed", "sealed", "damaged"}) {
      ASSERT_TRUE(store->Create(request, "spec", 1).ok());
    }
    SQLite::Database old((Home() / "runs.sqlite").string(), SQLite::OPEN_READWRITE, 10000);
    // As version 3 left them: without a checksum, with that of the spec, and with another.
    old.exec("UPDATE runs SET spec_crc = -1 WHERE number = 1");
    old.exec(absl::StrCat("UPDATE runs SET spec_crc = ", Crc32c("spec"), " WHERE number = 2"));
    old.exec(absl::StrCat("UPDATE runs SET spec_crc = ", Crc32c("spel"), " WHERE number = 3"));
    old.exec("PRAGMA user_version=3");
  }
  for (int open = 0; open < 2; ++open) {
    const auto store = RunStore::Open(Home()).value();
    EXPECT_EQ(store->SpecOf("run-000001").value(), "spec");
    EXPECT_EQ(store->SpecOf("run-000002").value(), "spec");
    EXPECT_TRUE(absl::IsDataLoss(store->Get("run-000003").status()));
  }
  const auto store = RunStore::Open(Home()).value();
  SQLite::Database database((Home() / "runs.sqlite").string(), SQLite::OPEN_READWRITE, 10000);
  database.exec("UPDATE runs SET principal = 'another'");
  EXPECT_TRUE(absl::IsDataLoss(store->Get("run-000001").status())) << "sealed by the upgrade";
}

}  // namespace stored_spec_test
}  // namespace braid
