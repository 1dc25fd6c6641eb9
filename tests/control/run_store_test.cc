#include "control/run_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include <thread>

#include "tests/control/control_fixture.h"

namespace braid {
namespace run_store_test {

using testing::HasSubstr;

class RunStoreTest : public ControlFixture {
 protected:
  std::unique_ptr<RunStore> store_ = RunStore::Open(root_ / "home").value();
};

TEST_F(RunStoreTest, NumbersRunsAndListsNewestFirst) {
  EXPECT_EQ(store_->Create("a", "spec", 1).value().id, "run-000001");
  EXPECT_EQ(store_->Create("b", "spec", 2).value().id, "run-000002");
  const std::vector<RunRecord> runs = store_->List().value();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].id, "run-000002");
  EXPECT_EQ(runs[1].created, 1);
  EXPECT_EQ(runs[1].run_dir, root_ / "home/runs/run-000001");
}

TEST_F(RunStoreTest, SameRequestGivesTheSameRun) {
  EXPECT_EQ(store_->Create("a", "spec", 1).value().id, store_->Create("a", "spec", 2).value().id);
  EXPECT_EQ(store_->List().value().size(), 1u);
}

TEST_F(RunStoreTest, SameRequestWithAnotherSpecIsRefused) {
  ASSERT_TRUE(store_->Create("a", std::string("spec\0one", 8), 1).ok());
  const absl::Status status = store_->Create("a", std::string("spec\0two", 8), 2).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("run-000001"));
}

TEST_F(RunStoreTest, PrincipalsDoNotShareRequestIds) {
  const RunOwner ann = {.principal = "ann"}, bob = {.principal = "bob"};
  const RunRecord hers = store_->Create("a", "spec", 1, ann).value();
  const RunRecord his = store_->Create("a", "other", 2, bob).value();
  EXPECT_NE(his.id, hers.id);
  EXPECT_EQ(store_->Create("a", "spec", 3, ann).value().id, hers.id);
  EXPECT_THAT(std::string(store_->Create("a", "spec", 4, bob).status().message()),
              HasSubstr("belongs to " + his.id));
  EXPECT_EQ(store_->Create("3:ann/a", "spec", 5, bob).value().principal, "bob")
      << "as the id of ann is stored";
  ASSERT_TRUE(store_->Delete(hers, "ann", 6).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store_->Create("a", "spec", 7, ann).status()));
  EXPECT_EQ(store_->Create("a", "other", 8, bob).value().id, his.id);
}

TEST_F(RunStoreTest, EmptyRequestIdIsAlwaysANewRun) {
  EXPECT_NE(store_->Create("", "spec", 1).value().id, store_->Create("", "spec", 1).value().id);
}

TEST_F(RunStoreTest, UnknownRunIsNamed) {
  const absl::Status status = store_->Get("run-000099").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("run-000099"));
}

TEST_F(RunStoreTest, ReopenedStoreKnowsItsRuns) {
  ASSERT_TRUE(store_->Create("a", "spec", 1).ok());
  store_ = nullptr;
  store_ = RunStore::Open(root_ / "home").value();
  EXPECT_EQ(store_->Get("run-000001").value().run_dir, root_ / "home/runs/run-000001");
}

TEST_F(RunStoreTest, NeverReusesTheDirectoryOfALostRun) {
  std::filesystem::create_directories(root_ / "home/runs/run-000001");
  EXPECT_EQ(store_->Create("a", "spec", 1).value().id, "run-000002");
}

TEST_F(RunStoreTest, TwoProgramsGetDifferentRuns) {
  std::unique_ptr<RunStore> other = RunStore::Open(root_ / "home").value();
  const auto create = [](RunStore* store, std::string prefix) {
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(store->Create(absl::StrCat(prefix, i), "spec", 1).ok());
    }
  };
  std::thread thread(create, other.get(), "x");
  create(store_.get(), "y");
  thread.join();
  EXPECT_EQ(store_->List().value().size(), 20u);
}

TEST_F(RunStoreTest, PagesCoverTheListOnce) {
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(store_->Create("", "spec", 1).ok());
  std::vector<std::string> ids;
  for (std::string before;;) {
    const std::vector<RunRecord> page = store_->List(before, 3).value();
    for (const RunRecord& record : page) ids.push_back(record.id);
    if (page.size() < 3) break;
    before = page.back().id;
  }
  ASSERT_EQ(ids.size(), 7u);
  EXPECT_EQ(ids.front(), "run-000007");
  EXPECT_EQ(ids.back(), "run-000001");
}

TEST_F(RunStoreTest, APageFollowsARunThatWasDeleted) {
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(store_->Create("", "spec", 1).ok());
  const RunRecord last = store_->List("", 2).value().back();
  ASSERT_TRUE(store_->Delete(last, "alice", 2).ok());
  const std::vector<RunRecord> next = store_->List(last.id, 2).value();
  ASSERT_EQ(next.size(), 2u);
  EXPECT_EQ(next[0].id, "run-000002");
  EXPECT_EQ(next[1].id, "run-000001");
  EXPECT_TRUE(absl::IsNotFound(store_->List("run-3").status()));
}

TEST_F(RunStoreTest, OwnersHaveLimitsOfActiveRunsAndRanks) {
  const RunOwner alice = {.principal = "alice", .ranks = 4, .max_runs = 2, .max_ranks = 10};
  const RunOwner bob = {.principal = "bob", .ranks = 4, .max_runs = 2, .max_ranks = 10};
  const RunRecord first = store_->Create("a", "spec", 1, alice).value();
  EXPECT_EQ(first.principal, "alice");
  ASSERT_TRUE(store_->Create("b", "spec", 1, alice).ok());
  const absl::Status refused = store_->Create("c", "spec", 1, alice).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--quota-runs"));
  EXPECT_TRUE(store_->Create("a", "spec", 1, alice).ok()) << "it exists already";
  EXPECT_TRUE(store_->Create("d", "spec", 1, bob).ok()) << "limits are per principal";

  ASSERT_TRUE(store_->Settle(first).ok());
  RunOwner wide = alice;
  wide.ranks = 7;
  const absl::Status too_wide = store_->Create("e", "spec", 1, wide).status();
  EXPECT_TRUE(absl::IsResourceExhausted(too_wide));
  EXPECT_THAT(std::string(too_wide.message()), HasSubstr("4 are active and 7 more requested"));
  ASSERT_TRUE(store_->Create("f", "spec", 1, alice).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Relaunch(first.id, alice).status()));
}

TEST_F(RunStoreTest, DatabaseOfVersionOneIsUpgraded) {
  std::filesystem::create_directories(root_ / "old");
  {
    SQLite::Database old((root_ / "old/runs.sqlite").string(),
                         SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    old.exec(
        "CREATE TABLE runs (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, request_id TEXT"
        " UNIQUE, spec BLOB NOT NULL, run_dir TEXT NOT NULL, created REAL NOT NULL);"
        "INSERT INTO runs VALUES (7, 'run-000007', 'mine', x'61', '/runs/seven', 12.5)");
  }
  for (int open = 0; open < 2; ++open) {
    const auto store = RunStore::Open(root_ / "old").value();
    const RunRecord record = store->Get("run-000007").value();
    EXPECT_EQ(record.run_dir, root_ / "old/runs/run-000007") << "a home can move";
    EXPECT_EQ(record.created, 12.5);
    EXPECT_EQ(record.principal, "local");
    EXPECT_EQ(store->Active().value().size(), 1u) << "until it is settled";
    EXPECT_EQ(store->Create("mine", "a", 20).value().id, "run-000007");
  }
  const auto store = RunStore::Open(root_ / "old").value();
  EXPECT_EQ(store->Create("mine", "a", 21, {.principal = "ann"}).value().id, "run-000008");
  ASSERT_TRUE(store->Delete(store->Get("run-000007").value(), "local", 22).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store->Create("mine", "a", 23).status()));
}

TEST_F(RunStoreTest, DatabaseOfANewerProgramIsRefused) {
  std::filesystem::create_directories(root_ / "new");
  {
    SQLite::Database newer((root_ / "new/runs.sqlite").string(),
                           SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    newer.exec("PRAGMA user_version=99");
  }
  const absl::Status status = RunStore::Open(root_ / "new").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("99"));
}

TEST_F(RunStoreTest, HomeThatIsAFileIsRefused) {
  Write(root_ / "file", "x");
  EXPECT_FALSE(RunStore::Open(root_ / "file").ok());
}

void ExpectDamageWithRemedy(const absl::Status& status) {
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("runs.sqlite"), HasSubstr("move the file away")));
}

TEST_F(RunStoreTest, AFileThatIsNotADatabaseIsDamage) {
  Write(root_ / "other/runs.sqlite", std::string(4096, 'x'));
  ExpectDamageWithRemedy(RunStore::Open(root_ / "other").status());
}

TEST_F(RunStoreTest, ADatabaseWithDamagedPagesIsDamage) {
  ASSERT_TRUE(store_->Create("a", std::string(9000, 's'), 1).ok());
  store_ = nullptr;  // the write-ahead log is copied into the file
  const std::filesystem::path file = root_ / "home/runs.sqlite";
  constexpr std::streamoff kPageBytes = 4096;
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(file));
  ASSERT_GT(size, 2 * kPageBytes);
  {
    std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(kPageBytes);
    out << std::string(static_cast<size_t>(size - kPageBytes), 'x');
  }
  const auto store = RunStore::Open(root_ / "home");
  ASSERT_TRUE(store.ok()) << store.status();
  ExpectDamageWithRemedy((*store)->List().status());
  ExpectDamageWithRemedy((*store)->Get("run-000001").status());
  ExpectDamageWithRemedy((*store)->Create("b", "spec", 1).status());
}

}  // namespace run_store_test
}  // namespace braid
