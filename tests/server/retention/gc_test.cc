// Deleting by age and number through the service: what is deleted, and what is kept and why.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/directory_use.h"
#include "pipeline/jobs/job_deletions.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/server/retention/retention_fixture.h"

namespace braid {
namespace gc_test {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class GcTest : public RetentionFixture {};

TEST_F(GcTest, CollectsByAgeAndNumber) {
  const double now = UnixTime();
  std::vector<std::string> runs;
  for (int i = 0; i < 5; ++i) {
    runs.push_back(
        home_.AddRun({.created = now - (50 - i) * kDay, .finished = now - (40 - 10 * i) * kDay}));
  }
  v1::CollectGarbageRequest request = OlderThan(25);
  request.set_keep(4);
  request.set_dry_run(true);
  EXPECT_THAT(Deleted(Collect(request).value()), ElementsAre(runs[0]));
  EXPECT_THAT(home_.Ids(), SizeIs(5));
  request.set_dry_run(false);
  EXPECT_THAT(Deleted(Collect(request).value()), ElementsAre(runs[0]));
  EXPECT_THAT(Deleted(Collect(OlderThan(25)).value()), ElementsAre(runs[1]));
  request = {};
  request.set_keep(2);
  EXPECT_THAT(Deleted(Collect(request).value()), ElementsAre(runs[2]));
  EXPECT_THAT(home_.Ids(), ElementsAre(runs[3], runs[4]));
  EXPECT_FAILS(Collect({}), StatusCode::kInvalidArgument, "keep 0");
  request.set_keep(-1);
  EXPECT_FAILS(Collect(request), StatusCode::kInvalidArgument, "keep -1");
}

TEST_F(GcTest, CollectsWhatUsesAnotherBeforeIt) {
  const std::string job = home_.AddJob();
  const std::string base = home_.AddRun({.dataset = home_.Output("p1"), .created = 1100});
  const std::string tuned = home_.AddRun({.init_from = base, .created = 1200});
  const std::string recent =
      home_.AddRun({.dataset = home_.Output("p1"), .created = 1300, .finished = UnixTime()});
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse first, Collect(OlderThan(30)));
  EXPECT_THAT(Deleted(first), ElementsAre(tuned, base));
  ASSERT_THAT(first.deletions(), SizeIs(3));
  EXPECT_EQ(first.deletions(2).id(), job);
  EXPECT_THAT(first.deletions(2).kept_because(), HasSubstr(recent + " uses store/pack-1111"));
  EXPECT_TRUE(fs::exists(home_.Output("p1")));
}

TEST_F(GcTest, ResultsOfEvaluationsAreKeptUnlessAskedFor) {
  const std::string scored = home_.AddRun(), tested = home_.AddRun(), plain = home_.AddRun();
  const std::string by_experts = home_.AddRun();
  PutFile(home_ / ("runs/" + by_experts + "/active_experts.json"), "{}");
  PutFile(home_ / ("runs/" + scored + "/evaluation.json"), "{}");
  fs::create_directories(home_ / ("runs/" + tested + "/tasks"));
  PutFile(home_ / ("runs/" + tested + "/tasks/result.json"), "{}");
  EXPECT_THAT(Deleted(Collect(OlderThan(1)).value()), ElementsAre(plain));
  v1::CollectGarbageRequest request = OlderThan(1);
  request.set_include_evaluated(true);
  EXPECT_THAT(Deleted(Collect(request).value()), ElementsAre(by_experts, tested, scored));
}

TEST_F(GcTest, ReducesRunsToTheirNewestGoodCheckpoint) {
  const std::string run = home_.AddRun(), damaged = home_.AddRun(), start = home_.AddRun();
  home_.AddRun({.init_from = start, .created = 1500, .finished = UnixTime()});
  const fs::path last = home_ / ("runs/" + damaged + "/checkpoints/step-00000020");
  PutByte(last / "model.safetensors", 7, 'z');
  v1::CollectGarbageRequest request = OlderThan(1);
  request.set_checkpoints(true);
  request.set_dry_run(true);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse plan, Collect(request));
  request.set_dry_run(false);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Collect(request));
  EXPECT_THAT(Deleted(done), testing::UnorderedElementsAre(run, damaged));
  EXPECT_EQ(done.freed_bytes(), plan.freed_bytes());
  EXPECT_GT(done.freed_bytes(), 2 * 5 * 20000);
  EXPECT_THAT(Checkpoints(run), ElementsAre(20));
  EXPECT_THAT(Checkpoints(damaged), ElementsAre(10)) << "the newest is damaged";
  EXPECT_THAT(Checkpoints(start), SizeIs(2)) << "another run was initialized from it";
  EXPECT_THAT(home_.Ids(), SizeIs(4));
}

TEST_F(GcTest, ReducedRunsKeepTheirBestCheckpointAndTheirBranchPoints) {
  const std::string run =
      home_.AddRun({.checkpoints = {10, 20, 30, 40, 50}, .keep_every_steps = 20, .best_step = 30});
  const std::string best = home_.AddRun({.checkpoints = {10, 20, 30}, .best_step = 10});
  const std::string unfinished =
      home_.AddRun({.checkpoints = {10, 20, 30, 40, 50}, .regular_steps = 20});
  const std::string unknown = home_.AddRun({.checkpoints = {10, 20}});
  PutByte(home_ / ("runs/" + unknown + "/run.textproto"), 40, 'z');
  v1::CollectGarbageRequest request = OlderThan(1);
  request.set_checkpoints(true);
  request.set_dry_run(true);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse plan, Collect(request));
  request.set_dry_run(false);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Collect(request));
  EXPECT_EQ(done.freed_bytes(), plan.freed_bytes());
  EXPECT_THAT(Checkpoints(run), ElementsAre(20, 30, 40, 50)) << "checkpoint.keep_every_steps is 20";
  EXPECT_THAT(Checkpoints(best), ElementsAre(10, 30));
  EXPECT_THAT(Checkpoints(unfinished), ElementsAre(40, 50)) << "a resumed run may roll back";
  EXPECT_THAT(Checkpoints(unknown), SizeIs(2)) << "what to keep is not known";
  for (const v1::Deletion& each : done.deletions()) {
    EXPECT_THAT(each.kept_because(), each.id() == unknown
                                         ? HasSubstr("run.textproto")
                                         : testing::Matcher<std::string>(IsEmpty()));
  }
}

TEST_F(GcTest, CollectsPreparedDataThatNoRunUsesByTheTimeOfItsLastUse) {
  const std::string used = home_.AddPrepared("pack-1", 40),
                    base = home_.AddPrepared("converted-1", 40);
  const std::string old = home_.AddPrepared("pack-2", 40),
                    split = home_.AddPrepared("converted-2", 40);
  const std::string recent = home_.AddPrepared("pack-3", 3);
  const std::string killed = home_.AddPrepared("converted-4.tmp", 40);
  const std::string run = home_.AddRun(
      {.dataset = home_ / used, .init_from = (home_ / base).string(), .finished = UnixTime()});
  v1::CollectGarbageRequest request = OlderThan(30);
  request.set_dry_run(true);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse plan, Collect(request));
  EXPECT_THAT(Deleted(plan), testing::UnorderedElementsAre(old, split, "supervised/converted-4"));
  EXPECT_TRUE(home_.Has(old) && home_.Has(split) && home_.Has(killed)) << "a dry run";
  std::vector<std::string> kept;
  for (const v1::Deletion& each : plan.deletions()) {
    if (!each.kept_because().empty()) kept.push_back(each.kept_because());
  }
  EXPECT_THAT(kept, testing::UnorderedElementsAre(HasSubstr(run + " uses " + used),
                                                  HasSubstr(run + " uses " + base)));
  request.set_dry_run(false);
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Collect(request));
  EXPECT_EQ(done.freed_bytes(), plan.freed_bytes());
  EXPECT_GT(done.freed_bytes(), 3 * 20000);
  EXPECT_FALSE(home_.Has(old) || home_.Has(split) || home_.Has(killed));
  EXPECT_TRUE(home_.Has(used) && home_.Has(base) && home_.Has(recent));
  // Nothing uses it once its run is gone. Numbers to keep say nothing about prepared data.
  ASSERT_OK(Delete({run}));
  v1::CollectGarbageRequest newest;
  newest.set_keep(1);
  EXPECT_THAT(Collect(newest)->deletions(), IsEmpty());
  EXPECT_THAT(Deleted(Collect(OlderThan(30)).value()), testing::UnorderedElementsAre(used, base));
}

TEST_F(GcTest, KeepsPreparedDataOfARunThatIsBeingLaunched) {
  const std::string pack = home_.AddPrepared("pack-1", 40),
                    base = home_.AddPrepared("converted-1", 40);
  {
    // As `braid finetune` and a launch do.
    const auto data = DirectoryUse::Share(home_.path(), home_ / pack);
    const auto model = DirectoryUse::Share(home_.path(), home_ / base / "model.safetensors");
    ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse kept, Collect(OlderThan(30)));
    EXPECT_THAT(Deleted(kept), IsEmpty());
    EXPECT_THAT(kept.deletions(0).kept_because(), HasSubstr("is in use"));
  }
  who_ = "ann";
  EXPECT_THAT(Collect(OlderThan(30))->deletions(), IsEmpty()) << "prepared data has no owner";
  who_ = "olga";
  EXPECT_THAT(Deleted(Collect(OlderThan(30)).value()), testing::UnorderedElementsAre(pack, base));
}

TEST_F(GcTest, CompletesAnInterruptedDeletionOfPreparedData) {
  const std::string pack = home_.AddPrepared("pack-1", 40);
  fs::rename(home_ / pack, home_ / (pack + ".deleted"));
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Collect(OlderThan(30)));
  EXPECT_THAT(Deleted(done), ElementsAre(pack));
  EXPECT_FALSE(home_.Has(pack + ".deleted"));
}

TEST_F(GcTest, AJobThatRanAgainAfterAnInterruptedDeletionKeepsItsOutputs) {
  // The row of the job is gone, its directories are not, and a new job has reused one of them.
  const std::string job = home_.AddJob({.outputs = {"i1", "p1"}});
  ASSERT_OK(JobDeletions::Open(home_.path())
                .value()
                ->Delete({.id = job,
                          .directories = {"store/ingest-1111111111111111",
                                          "store/pack-1111111111111111"}},
                         "ann", 1));
  const std::string again = home_.AddJob({.outputs = {"i1", "p2"}, .finished = UnixTime()});
  ASSERT_OK_AND_ASSIGN(const v1::DeletionResponse done, Collect(OlderThan(1)));
  EXPECT_THAT(Deleted(done), ElementsAre(job));
  EXPECT_TRUE(fs::exists(home_.Output("i1")));
  EXPECT_FALSE(fs::exists(home_.Output("p1")));
  EXPECT_THAT(home_.Ids(), ElementsAre(again));
}

}  // namespace gc_test
}  // namespace braid
