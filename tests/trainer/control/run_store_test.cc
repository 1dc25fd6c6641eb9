#include "trainer/control/run_store.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/trainer/control/control_fixture.h"

namespace braid {
namespace {

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

TEST_F(RunStoreTest, NeverReusesTheDirectoryOfAForgottenRun) {
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

TEST_F(RunStoreTest, HomeThatIsAFileIsRefused) {
  Write(root_ / "file", "x");
  EXPECT_FALSE(RunStore::Open(root_ / "file").ok());
}

TEST_F(RunStoreTest, DamagedDataBaseIsNamed) {
  Write(root_ / "other/runs.sqlite", std::string(4096, 'x'));
  const absl::Status status = RunStore::Open(root_ / "other").status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("runs.sqlite"));
}

}  // namespace
}  // namespace braid
