// Deleting by id through the service: what is deleted, what is kept and why, and who may.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/directory_use.h"
#include "control/launch/launch_lock.h"
#include "control/run_store.h"
#include "pipeline/jobs/job_database.h"
#include "pipeline/jobs/job_store.h"
#include "pipeline/store/stage_store.h"
#include "runs/process_identity.h"
#include "runs/run_directory.h"
#include "server/retention/disk_tree.h"
#include "tests/base/status_matchers.h"
#include "tests/server/retention/retention_fixture.h"

namespace braid {
namespace deletion_test {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class DeletionTest : public RetentionFixture {};

TEST_F(DeletionTest, DeletesARunAndItsJobAndReportsTheSpaceFreed) {
  const std::string job = home_.AddJob();
  const std::string run = home_.AddRun({.dataset = home_.Output("p1")});
  const int64_t bytes = DiskBytes(home_ / "store") + DiskBytes(home_ / "runs");
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse plan, Delete({job, run}, /*dry_run=*/true));
  EXPECT_THAT(Deleted(plan), ElementsAre(run, job)) << "the user first";
  EXPECT_THAT(home_.Ids(), ElementsAre(job, run)) << "a dry run deletes nothing";
  EXPECT_THAT(log_, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Delete({job, run}));
  EXPECT_THAT(Deleted(done), ElementsAre(run, job));
  EXPECT_EQ(done.freed_bytes(), plan.freed_bytes());
  EXPECT_GT(done.freed_bytes(), 2 * 20000 + 2 * 5 * 20000);
  EXPECT_LE(done.freed_bytes(), bytes);
  EXPECT_THAT(home_.Directories(), IsEmpty());
  EXPECT_THAT(home_.Ids(), IsEmpty());
  EXPECT_THAT(log_, ElementsAre(HasSubstr("deleted " + run + " of local for local"),
                                HasSubstr("deleted " + job)));
  EXPECT_FAILS(Delete({job}), StatusCode::kNotFound, job);
}

TEST_F(DeletionTest, OutputsThatAnotherJobHasStay) {
  const std::string first = home_.AddJob({.outputs = {"i1", "t1", "p1"}});
  home_.AddJob({.outputs = {"i1", "t2", "p2"}});
  ASSERT_OK(Delete({first}));
  EXPECT_TRUE(fs::exists(home_.Output("i1")));
  EXPECT_FALSE(fs::exists(home_.Output("t1")));
  EXPECT_FALSE(fs::exists(home_.Output("p1")));
  EXPECT_TRUE(fs::exists(home_.Output("p2")));
}

TEST_F(DeletionTest, AFailedJobTakesItsUnfinishedOutputsWithIt) {
  const std::string job = home_.AddJob({.outputs = {"i1", "t1"}, .state = v1::JOB_FAILED});
  fs::rename(home_.Output("t1"), home_.Output("t1").string() + ".tmp");
  ASSERT_OK(Delete({job}));
  EXPECT_THAT(home_.Directories(), IsEmpty());
}

TEST_F(DeletionTest, AJobTakesTheOutputsOfItsEarlierAttemptsWithIt) {
  const std::string other = home_.AddJob({.outputs = {"e3"}});
  const std::string job = home_.AddJob({.outputs = {"i1", "t1", "e3"}, .state = v1::JOB_FAILED});
  // Resumed with another input, it fails again.
  home_.RunAgain(job, {"i2", "t2"});
  ASSERT_OK(Delete({job}));
  EXPECT_THAT(home_.Directories(), ElementsAre("store/embed-3333333333333333"));
  ASSERT_OK(Delete({other}));
  EXPECT_THAT(home_.Directories(), IsEmpty());
}

TEST_F(DeletionTest, KeepsWhatAnotherJobOrRunUses) {
  const std::string job = home_.AddJob({.outputs = {"i1", "t1", "p1"}});
  const std::string run = home_.AddRun({.dataset = home_.Output("p1")});
  ExpectRefused({job}, StatusCode::kFailedPrecondition, run + " uses store/pack-1111");
  const std::string second = home_.AddRun({.dataset = home_.Output("p1"), .created = 1500});
  EXPECT_FAILS(Delete({job}), StatusCode::kFailedPrecondition,
               job + " is needed: " + second + " uses store/pack-1111",
               "; " + run + " uses store/pack-1111", "; delete what uses it first");
  ASSERT_OK(Delete({second}));
  // Initialized from a run by id, by path, and from one of its checkpoints.
  const std::vector<std::string> starts = {
      run, (home_ / ("runs/" + run)).string(),
      (home_ / ("runs/" + run + "/checkpoints/step-00000010"))};
  for (const std::string& start : starts) {
    const std::string next = home_.AddRun({.init_from = start, .created = 2000});
    ExpectRefused({run}, StatusCode::kFailedPrecondition, next + " uses runs/" + run);
    ASSERT_OK(Delete({next}));
  }
  // A job that takes the tokenizer of another.
  v1::CorpusSpec spec;
  spec.mutable_tokenizer()->set_model_path((home_.Output("t1") / "tokenizer.model").string());
  const std::string next = home_.AddJob({.outputs = {"p2"}, .spec = spec});
  ASSERT_OK(Delete({run}));
  ExpectRefused({job}, StatusCode::kFailedPrecondition, next + " uses store/tokenize-1111");
  ASSERT_OK(Delete({next, job}));
  EXPECT_THAT(home_.Ids(), IsEmpty());
}

TEST_F(DeletionTest, ADamagedJobKeepsWhatItMayOwn) {
  const std::string job = home_.AddJob({.outputs = {"i1", "p1"}});
  const std::string damaged = home_.AddJob({.outputs = {"i1", "p2"}});
  SQLite::Database(JobDatabasePath(home_.path()).string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE jobs SET spec_crc = 1 WHERE id = 2");
  ExpectRefused({job}, StatusCode::kFailedPrecondition,
                damaged + ", whose settings are damaged, may use store/");
  ASSERT_OK(Delete({job, damaged}));
}

TEST_F(DeletionTest, ARunThatIsMissingInTheListKeepsItsDataset) {
  const std::string job = home_.AddJob();
  const std::string run = home_.AddRun({.dataset = home_.Output("p1")});
  for (const char* const suffix : {"", "-wal", "-shm"}) {
    fs::remove(home_ / absl::StrCat("runs.sqlite", suffix));
  }
  ExpectRefused({job}, StatusCode::kFailedPrecondition, run + " uses store/pack-1111");
  const fs::path directory = (home_ / ("runs/" + run)).lexically_normal();
  ExpectRefused({run}, StatusCode::kFailedPrecondition,
                run +
                    " is not in the list of runs, so it cannot be deleted by its id; if no process "
                    "runs it, remove its directory, " +
                    directory.string());
  // This is what the message says.
  fs::remove_all(directory);
  EXPECT_OK(Delete({job}));
}

TEST_F(DeletionTest, RefusesWhatHasNotEnded) {
  const std::string queued = home_.AddJob({.state = v1::JOB_QUEUED});
  ExpectRefused({queued}, StatusCode::kFailedPrecondition, queued + " is QUEUED; cancel it first");
  ASSERT_OK(JobStore::Open(home_.path()).value()->ClaimNext());
  ExpectRefused({queued}, StatusCode::kFailedPrecondition, queued + " is RUNNING");
  const std::string starting = home_.AddRun({.ended = false, .created = UnixTime()});
  ExpectRefused({starting}, StatusCode::kFailedPrecondition,
                starting + " is STARTING; stop it first");
  // Several ids: all or none.
  const std::string ended = home_.AddRun();
  ExpectRefused({ended, starting}, StatusCode::kFailedPrecondition, starting);
  ExpectRefused({ended, "run-000077"}, StatusCode::kNotFound, "run-000077");
  ExpectRefused({ended, "nonsense"}, StatusCode::kNotFound, "nonsense");
  EXPECT_FAILS(Delete({}), StatusCode::kInvalidArgument, "ids");
}

TEST_F(DeletionTest, NamesTheCauseWhenALockCannotBeTaken) {
  const std::string run = home_.AddRun();
  for (const char* const name : {"launch.lock", "supervisor.lock"}) {
    const std::string place = absl::StrCat("runs/", run, "/", name);
    const fs::path lock = home_ / place;
    fs::remove(lock);
    fs::create_directory(lock);
    ExpectRefused({run}, StatusCode::kInvalidArgument, place + ": Is a directory");
    fs::remove(lock);
    fs::create_symlink(run, lock);
    ExpectRefused({run}, StatusCode::kUnavailable, place + ": Too many levels of symbolic");
    fs::remove(lock);
  }
  {
    const auto launch = LockLaunch(RunDirectory(home_ / ("runs/" + run)));
    ASSERT_OK(launch);
    ExpectRefused({run}, StatusCode::kFailedPrecondition, run + " is being started");
  }
  ASSERT_OK(Delete({run}));
}

TEST_F(DeletionTest, RefusesWhatIsBeingRead) {
  const std::string job = home_.AddJob();
  const std::string run = home_.AddRun();
  {
    // As an evaluation and a served model do (control/model_child.cc, control/model_server.cc).
    const auto model =
        DirectoryUse::Share(home_.path(), home_ / ("runs/" + run + "/checkpoints/step-00000020"));
    ExpectRefused({run}, StatusCode::kFailedPrecondition, run + " is in use");
    // As a job does that reuses an output.
    StageStore store(home_ / "store", {.home = home_.path()});
    const absl::StatusOr<StoredStage> output =
        store.Produce("ingest", std::string(32, '1'),
                      [](StageWriter& writer) { return writer.AddText("rebuilt", "text", 1); });
    ASSERT_OK(output);
    ExpectRefused({job}, StatusCode::kFailedPrecondition, "store/ingest-1111");
    ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse kept, Collect(OlderThan(1)));
    EXPECT_THAT(Deleted(kept), IsEmpty());
    EXPECT_THAT(kept.deletions(), SizeIs(2)) << "reported with their reasons";
  }
  ASSERT_OK(Delete({job, run}));
  EXPECT_THAT(home_.Directories(), IsEmpty());
}

// The run keeper of braidd takes the lock when it notes that a run has ended.
TEST_F(DeletionTest, WaitsForALockThatIsHeldForAMoment) {
  const std::string run = home_.AddRun();
  std::optional launch = LockLaunch(RunDirectory(home_ / ("runs/" + run))).value();
  std::thread releasing([&] {
    SleepSeconds(0.3);
    launch.reset();
  });
  EXPECT_OK(Delete({run}));
  releasing.join();
}

// As after 'braid stop', which returns when the end of the run is recorded.
TEST_F(DeletionTest, WaitsForASupervisorThatIsAboutToExit) {
  const std::string run = home_.AddRun();
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    poll(nullptr, 0, 500);
    _exit(0);
  }
  const ProcessRecord record{IdentifyProcess(supervisor).value(), "nonce", UnixTime()};
  ASSERT_OK(WriteProcessRecord(RunDirectory(home_ / ("runs/" + run)).process(), record));
  EXPECT_OK(Delete({run}));
  EXPECT_EQ(waitpid(supervisor, nullptr, WNOHANG), supervisor) << "deleted before it had exited";
  EXPECT_THAT(home_.Directories(), IsEmpty());
}

TEST_F(DeletionTest, OwnersAndOperatorsMayDelete) {
  const std::string job = home_.AddJob({.principal = "ann"});
  const std::string run = home_.AddRun({.principal = "ann"});
  who_ = "bob";
  ExpectRefused({job}, StatusCode::kPermissionDenied, job + " belongs to ann");
  ExpectRefused({run}, StatusCode::kPermissionDenied, run + " belongs to ann");
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse none, Collect(OlderThan(1)));
  EXPECT_THAT(none.deletions(), IsEmpty()) << "collects his own only";
  who_ = "ann";
  ASSERT_OK(Delete({job}));
  who_ = "olga";
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse rest, Collect(OlderThan(1)));
  EXPECT_THAT(Deleted(rest), ElementsAre(run));
  EXPECT_THAT(log_.back(), HasSubstr(run + " of ann for olga"));
}

TEST_F(DeletionTest, IdsAndRequestIdsOfDeletedRunsAreNotUsedAgain) {
  const std::string run = home_.AddRun({.request_id = "once"});
  ASSERT_OK(Delete({run}));
  const auto runs = RunStore::Open(home_.path()).value();
  EXPECT_FAILS(runs->Create("once", "spec", 1), StatusCode::kAlreadyExists, run, "was deleted");
  EXPECT_EQ(runs->Create("", "spec", 1)->id, "run-000002");
  EXPECT_FAILS(runs->Get(run), StatusCode::kNotFound, run);
}

TEST_F(DeletionTest, ADeletedRunFreesItsPlaceInTheQuota) {
  const RunOwner owner = {.principal = "ann", .max_runs = 1};
  const auto runs = RunStore::Open(home_.path()).value();
  const std::string run = home_.AddRun({.principal = "ann"});
  EXPECT_FAILS(runs->Create("", "spec", 1, owner), StatusCode::kResourceExhausted, "--quota-runs");
  ASSERT_OK(Delete({run}));
  EXPECT_OK(runs->Create("", "spec", 1, owner));
}

}  // namespace deletion_test
}  // namespace braid
