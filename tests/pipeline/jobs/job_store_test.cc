#include "pipeline/jobs/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/jobs/job_deletions.h"
#include "pipeline/jobs/job_directories.h"
#include "pipeline/jobs/job_state.h"
#include "pipeline/store/progress_throttle.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace job_store_test {

using testing::ElementsAre;
using testing::HasSubstr;

class JobStoreTest : public testing::Test {
 protected:
  std::unique_ptr<JobStore> Open() {
    auto store = JobStore::Open(home_, [this] { return now_; });
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  static v1::CorpusSpec Spec(const std::string& path = "/a.jsonl") {
    v1::CorpusSpec spec;
    spec.add_paths(path);
    return spec;
  }
  std::vector<v1::JobEvent> Events(const std::string& id) { return *store_->EventsAfter(id, 0); }
  void ExpectGapFree(const std::string& id) {
    const auto events = Events(id);
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(events[i].number(), static_cast<int64_t>(i) + 1);
    }
    EXPECT_EQ(store_->Get(id)->last_event(), static_cast<int64_t>(events.size()));
  }

  double now_ = 1000;
  const std::filesystem::path home_ = NewDirectory();
  std::unique_ptr<JobStore> store_ = Open();
};

TEST_F(JobStoreTest, NumbersJobsAndListsTheNewestFirst) {
  EXPECT_EQ(store_->Submit(Spec(), "a")->id(), "job-000001");
  EXPECT_EQ(store_->Submit(Spec(), "b")->id(), "job-000002");
  const auto jobs = *store_->List();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].id(), "job-000002");
  EXPECT_EQ(jobs[1].state(), v1::JOB_QUEUED);
  EXPECT_EQ(jobs[1].spec().paths(0), "/a.jsonl");
  EXPECT_EQ(jobs[1].created_at(), 1000);
}

TEST_F(JobStoreTest, GivesOneJobForARequestId) {
  const auto first = store_->Submit(Spec(), "once");
  EXPECT_EQ(store_->Submit(Spec(), "once")->id(), first->id());
  const auto other = store_->Submit(Spec("/b.jsonl"), "once");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("job-000001"));
  EXPECT_EQ(store_->List()->size(), 1u);
}

TEST_F(JobStoreTest, PrincipalsDoNotShareRequestIds) {
  const Submitter ada{.principal = "ada"}, bob{.principal = "bob"};
  const std::string hers = store_->Submit(Spec(), "once", ada)->id();
  EXPECT_FALSE(store_->OfRequest("once", "bob")->has_value());
  const auto his = store_->Submit(Spec("/b.jsonl"), "once", bob);
  ASSERT_TRUE(his.ok()) << his.status();
  EXPECT_NE(his->id(), hers);
  EXPECT_EQ(store_->Submit(Spec(), "once", ada)->id(), hers);
  const auto other = store_->Submit(Spec(), "once", bob);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("\"once\" belongs to " + his->id()));
  EXPECT_FALSE(store_->OfRequest("3:ada/once", "bob")->has_value()) << "as the id of ada is stored";
}

TEST_F(JobStoreTest, RefusesIdsThatDoNotExist) {
  for (const char* id : {"job-000009", "job-9", "job-", "x", "", "job-00000x"}) {
    const auto job = store_->Get(id);
    EXPECT_EQ(job.status().code(), absl::StatusCode::kNotFound) << id;
    EXPECT_THAT(std::string(job.status().message()), HasSubstr("braid jobs"));
    EXPECT_EQ(store_->RequestCancel(id).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(store_->Resume(id).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(store_->EventsAfter(id, 0).status().code(), absl::StatusCode::kNotFound);
  }
}

TEST_F(JobStoreTest, KeepsEverythingAcrossAReopen) {
  const std::string id = store_->Submit(Spec(), "a")->id();
  ASSERT_TRUE(store_->ClaimNext().ok());
  v1::JobResult result;
  result.set_dataset_dir("/store/pack-1");
  now_ = 1500;
  ASSERT_TRUE(store_->Succeed(id, result).ok());
  store_.reset();
  store_ = Open();
  const v1::Job job = *store_->Get(id);
  EXPECT_EQ(job.state(), v1::JOB_SUCCEEDED);
  EXPECT_EQ(job.result().dataset_dir(), "/store/pack-1");
  EXPECT_EQ(job.finished_at(), 1500);
  ExpectGapFree(id);
}

TEST_F(JobStoreTest, ClaimsTheOldestQueuedJob) {
  store_->Submit(Spec(), "a").IgnoreError();
  store_->Submit(Spec(), "b").IgnoreError();
  EXPECT_EQ((*store_->ClaimNext())->id(), "job-000001");
  EXPECT_EQ((*store_->ClaimNext())->id(), "job-000002");
  EXPECT_FALSE(store_->ClaimNext()->has_value());
}

TEST_F(JobStoreTest, CancelsAQueuedJobAtOnceAndMarksARunningOne) {
  const std::string queued = store_->Submit(Spec(), "a")->id();
  EXPECT_EQ(store_->RequestCancel(queued)->state(), v1::JOB_CANCELLED);
  EXPECT_EQ(store_->RequestCancel(queued)->state(), v1::JOB_CANCELLED);
  const std::string running = store_->Submit(Spec(), "b")->id();
  ASSERT_TRUE(store_->ClaimNext().ok());
  EXPECT_FALSE(*store_->CancelRequested(running));
  EXPECT_EQ(store_->RequestCancel(running)->state(), v1::JOB_RUNNING);
  EXPECT_TRUE(*store_->CancelRequested(running));
  // It will stop, so a resumption now would be lost.
  EXPECT_EQ(store_->Resume(running).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(store_->MarkCancelled(running).ok());
  EXPECT_EQ(store_->Resume(running)->state(), v1::JOB_QUEUED);
  EXPECT_FALSE(*store_->CancelRequested(running));
  ExpectGapFree(queued);
  ExpectGapFree(running);
}

TEST_F(JobStoreTest, RefusesToResumeOrCancelASucceededJob) {
  const std::string id = store_->Submit(Spec(), "a")->id();
  ASSERT_TRUE(store_->ClaimNext().ok());
  ASSERT_TRUE(store_->Succeed(id, {}).ok());
  const absl::Status resumed = store_->Resume(id).status();
  EXPECT_EQ(resumed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(resumed.message().find(id + " has finished, so there is nothing to resume"), 0u);
  const absl::Status cancelled = store_->RequestCancel(id).status();
  EXPECT_EQ(cancelled.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cancelled.message().find(id + " has ended, so there is nothing to cancel"), 0u);
  EXPECT_EQ(store_->Fail(id, "x").code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(JobStoreTest, ClearsErrorAndStagesOnResume) {
  const std::string id = store_->Submit(Spec(), "a")->id();
  ASSERT_TRUE(store_->ClaimNext().ok());
  v1::StageProgress progress;
  progress.set_stage("ingest");
  progress.set_done(5);
  ASSERT_TRUE(store_->RecordProgress(id, progress).ok());
  progress.set_done(9);
  ASSERT_TRUE(store_->RecordProgress(id, progress).ok());
  ASSERT_TRUE(store_->Fail(id, "no space").ok());
  v1::Job job = *store_->Get(id);
  EXPECT_EQ(job.error(), "no space");
  ASSERT_EQ(job.stages_size(), 1);
  EXPECT_EQ(job.stages(0).done(), 9);
  job = *store_->Resume(id);
  EXPECT_EQ(job.error(), "");
  EXPECT_EQ(job.stages_size(), 0);
  ExpectGapFree(id);
}

TEST_F(JobStoreTest, ResumedJobsCountAgainstTheLimitOfTheirSubmitter) {
  const Submitter ada{.principal = "ada", .max_unfinished = 1};
  const std::string first = store_->Submit(Spec(), "a", ada)->id();
  ASSERT_TRUE(store_->RequestCancel(first).ok());
  const std::string second = store_->Submit(Spec(), "b", ada)->id();
  EXPECT_EQ(store_->Resume(first, 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->Get(first)->state(), v1::JOB_CANCELLED);
  EXPECT_TRUE(store_->Resume(second, 1).ok()) << "resuming a queued job has no effect";
  ASSERT_TRUE(store_->RequestCancel(second).ok());
  EXPECT_EQ(store_->Resume(first, 1)->state(), v1::JOB_QUEUED);
}

TEST_F(JobStoreTest, RequeuesOrphansUnlessTheyWereCancelled) {
  const std::string orphan = store_->Submit(Spec(), "a")->id();
  const std::string cancelled = store_->Submit(Spec(), "b")->id();
  ASSERT_TRUE(store_->ClaimNext().ok());
  ASSERT_TRUE(store_->ClaimNext().ok());
  ASSERT_TRUE(store_->RequestCancel(cancelled).ok());
  ASSERT_TRUE(store_->RequeueOrphans().ok());
  EXPECT_EQ(store_->Get(orphan)->state(), v1::JOB_QUEUED);
  EXPECT_EQ(store_->Get(cancelled)->state(), v1::JOB_CANCELLED);
}

TEST_F(JobStoreTest, RequeuesAnInterruptedJobUnlessItWasCancelled) {
  const std::string interrupted = store_->Submit(Spec(), "a")->id();
  const std::string cancelled = store_->Submit(Spec(), "b")->id();
  ASSERT_TRUE(store_->ClaimNext().ok());
  ASSERT_TRUE(store_->ClaimNext().ok());
  ASSERT_TRUE(Open()->RequestCancel(cancelled).ok()) << "by another process";
  for (const std::string& id : {interrupted, cancelled}) {
    ASSERT_TRUE(store_->Requeue(id, "interrupted; queued again").ok());
  }
  EXPECT_EQ(store_->Get(interrupted)->state(), v1::JOB_QUEUED);
  EXPECT_EQ(Events(interrupted).back().message(), "interrupted; queued again");
  EXPECT_EQ(store_->Get(cancelled)->state(), v1::JOB_CANCELLED);
  EXPECT_EQ(Events(cancelled).back().message(), "canceled");
}

// Workers try to claim a job after every change, so a claim that finds no job must not be a change.
TEST_F(JobStoreTest, AClaimWithoutADueJobIsNotAChange) {
  const std::string id = store_->Submit(Spec(), "a")->id();
  ASSERT_TRUE(store_->ClaimNext()->has_value());
  ASSERT_TRUE(store_->Retry(id, "the disk is full", 60).ok());
  int told = 0;
  store_->SetListener([&] { ++told; });
  const uint64_t before = store_->changes();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(store_->RequeueOrphans().ok());
    EXPECT_FALSE(store_->ClaimNext()->has_value());
  }
  EXPECT_EQ(store_->changes(), before);
  EXPECT_EQ(told, 0);
  now_ += 3600;
  EXPECT_TRUE(store_->ClaimNext()->has_value());
  EXPECT_GT(store_->changes(), before);
  EXPECT_EQ(told, 1);
}

TEST_F(JobStoreTest, NumbersEventsWithoutGapAcrossConnectionsAndThreads) {
  const std::string id = store_->Submit(Spec(), "a")->id();
  ASSERT_TRUE(store_->ClaimNext().ok());
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const std::unique_ptr<JobStore> own = Open();
      v1::StageProgress progress;
      progress.set_stage("embed");
      for (int i = 0; i < 10; ++i) EXPECT_TRUE(own->RecordProgress(id, progress).ok());
    });
  }
  threads.clear();
  EXPECT_EQ(Events(id).size(), 32u);
  ExpectGapFree(id);
}

TEST_F(JobStoreTest, ReturnsOnlyLaterEvents) {
  const std::string id = store_->Submit(Spec(), "a")->id();
  ASSERT_TRUE(store_->ClaimNext().ok());
  const auto events = *store_->EventsAfter(id, 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].number(), 2);
  EXPECT_EQ(events[0].state(), v1::JOB_RUNNING);
}

TEST_F(JobStoreTest, KeepsAJobReadableWhoseErrorNamesAFileThatIsNotUtf8) {
  const std::string id = store_->Submit(Spec(), "a")->id();
  ASSERT_TRUE(store_->ClaimNext().ok());
  ASSERT_TRUE(store_->Fail(id, "corpus file caf\xE9.jsonl: damaged").ok());
  const auto events = store_->EventsAfter(id, 0);
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_EQ(events->back().message(), "corpus file caf\xEF\xBF\xBD.jsonl: damaged");
  v1::Job received;
  ASSERT_TRUE(received.ParseFromString(store_->Get(id)->SerializeAsString()));
  EXPECT_EQ(received.error(), events->back().message());
}

TEST_F(JobStoreTest, KeepsTheDirectoriesOfEarlierAttemptsUntilTheJobIsDeleted) {
  const std::string id = store_->Submit(Spec(), "a")->id();
  const auto attempt = [&](char key) {
    ASSERT_TRUE(store_->ClaimNext().ok());
    v1::StageProgress progress;
    progress.set_stage("ingest");
    progress.set_key(std::string(32, key));
    ASSERT_TRUE(store_->RecordProgress(id, progress).ok());
    ASSERT_TRUE(store_->Fail(id, "failed").ok());
  };
  attempt('1');
  EXPECT_TRUE(store_->EarlierDirectories()->empty());
  for (const char key : {'2', '1', '3'}) {
    ASSERT_TRUE(store_->Resume(id).ok());
    attempt(key);
  }
  store_ = Open();
  EXPECT_THAT(store_->EarlierDirectories()->at(id),
              ElementsAre("store/ingest-1111111111111111", "store/ingest-2222222222222222"));
  EXPECT_THAT(DirectoriesOf(*store_->Get(id)), ElementsAre("store/ingest-3333333333333333"));
  ASSERT_TRUE(
      JobDeletions::Open(home_).value()->Delete({.id = id, .directories = {}}, "ann", 1).ok());
  EXPECT_TRUE(store_->EarlierDirectories()->empty());
}

TEST_F(JobStoreTest, ReportsAFileThatIsNotADatabaseByName) {
  const std::filesystem::path home = NewDirectory();
  std::ofstream(home / "jobs.sqlite") << std::string(5000, 'x');
  const auto store = JobStore::Open(home);
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("jobs.sqlite"));
  EXPECT_EQ(JobDeletions::Open(home).status(), store.status());
}

TEST(JobStateTest, HasExactlyTheDocumentedTransitions) {
  const auto legal = [](v1::JobState from) {
    std::string to;
    for (int state = v1::JOB_QUEUED; state <= v1::JOB_CANCELLED; ++state) {
      if (IsLegalTransition(from, static_cast<v1::JobState>(state))) to += std::to_string(state);
    }
    return to;
  };
  EXPECT_EQ(legal(v1::JOB_QUEUED), "25");
  EXPECT_EQ(legal(v1::JOB_RUNNING), "1345");
  EXPECT_EQ(legal(v1::JOB_SUCCEEDED), "");
  EXPECT_EQ(legal(v1::JOB_FAILED), "1");
  EXPECT_EQ(legal(v1::JOB_CANCELLED), "1");
}

TEST(ProgressThrottleTest, AdmitsFourASecondAndEveryStartAndEnd) {
  ProgressThrottle throttle;
  v1::StageProgress progress;
  progress.set_stage("embed");
  int admitted = 0;
  for (int i = 0; i < 1000; ++i) admitted += throttle.Admit(progress, 10 + i * 0.001) ? 1 : 0;
  EXPECT_EQ(admitted, 4);
  progress.set_complete(true);
  EXPECT_TRUE(throttle.Admit(progress, 11));
  progress.set_stage("neighbors");
  progress.set_complete(false);
  EXPECT_TRUE(throttle.Admit(progress, 11));
}

TEST(ProgressThrottleTest, AdmitsTheFirstReportAfterEachResumePoint) {
  ProgressThrottle throttle;
  v1::StageProgress progress;
  progress.set_stage("embed");
  EXPECT_TRUE(throttle.Admit(progress, 10));
  for (int i = 1; i <= 3; ++i) {
    progress.set_num_resume_points(i);
    EXPECT_TRUE(throttle.Admit(progress, 10));
    EXPECT_FALSE(throttle.Admit(progress, 10));
  }
}

}  // namespace job_store_test
}  // namespace braid
