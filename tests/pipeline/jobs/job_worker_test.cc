// Jobs that several processes, or the workers of one, start, resume and cancel.
#include "pipeline/jobs/job_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <streambuf>
#include <string>
#include <thread>

#include "base/file_lock.h"
#include "pipeline/jobs/job_store.h"
#include "tests/pipeline/jobs/generated_corpus.h"
#include "tests/pipeline/jobs/pipeline_service_fixture.h"

namespace braid {
namespace job_worker_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class JobWorkerTest : public PipelineServiceFixture {};

// Collects what other threads write to std::cerr.
class ErrorOutput : public std::streambuf {
 public:
  ErrorOutput() : original_(std::cerr.rdbuf(this)) {}
  ~ErrorOutput() override { std::cerr.rdbuf(original_); }

  std::string text() const {
    const std::lock_guard guard(mutex_);
    return text_;
  }

 private:
  int_type overflow(int_type c) override {
    const std::lock_guard guard(mutex_);
    text_ += static_cast<char>(c);
    return c;
  }

  mutable std::mutex mutex_;
  std::string text_;
  std::streambuf* const original_;
};

TEST_F(JobWorkerTest, SaysOnceWhyNoJobCanStartAndGoesOnWhenItCan) {
  fs::create_directories(home_ / kWorkerLockFile);
  ErrorOutput errors;
  PipelineServer server(home_);
  const std::string id = MustSubmit(server, SmallSpec(corpus_));
  for (int i = 0; i < 6000 && !errors.text().ends_with("trying again\n"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(errors.text(), AllOf(StartsWith("cannot start queued jobs: "),
                                   HasSubstr((home_ / kWorkerLockFile).string())));
  fs::remove(home_ / kWorkerLockFile);
  EXPECT_EQ(Watch(server, id).back().state(), v1::JOB_SUCCEEDED);
  EXPECT_EQ(std::ranges::count(errors.text(), '\n'), 1) << errors.text();
}

TEST_F(JobWorkerTest, FailsWithTheCauseAndSucceedsWhenResumedAfterTheRepair) {
  const fs::path late = NewDirectory() / "late.jsonl";
  std::ofstream(late).flush();  // no document yet
  PipelineServer server(home_);
  const std::string id = MustSubmit(server, SmallSpec(late));
  EXPECT_EQ(Watch(server, id).back().state(), v1::JOB_FAILED);
  EXPECT_THAT(Get(server, id).error(), HasSubstr(late.string()));
  WriteCorpus(late);
  v1::ResumeJobRequest resume;
  resume.set_id(id);
  v1::Job job;
  const int64_t seen = Get(server, id).last_event();
  ASSERT_TRUE(Call(server, &v1::PipelineService::Stub::ResumeJob, resume, &job).ok());
  EXPECT_EQ(Watch(server, id, seen).back().state(), v1::JOB_SUCCEEDED);
  EXPECT_EQ(Get(server, id).error(), "");
}

TEST_F(JobWorkerTest, CancelsAndResumes) {
  PipelineServer server(home_);
  const std::string id = MustSubmit(server, SmallSpec(corpus_));
  v1::CancelJobRequest cancel;
  cancel.set_id(id);
  v1::Job job;
  ASSERT_TRUE(Call(server, &v1::PipelineService::Stub::CancelJob, cancel, &job).ok());
  ASSERT_EQ(Watch(server, id).back().state(), v1::JOB_CANCELLED);
  v1::ResumeJobRequest resume;
  resume.set_id(id);
  ASSERT_TRUE(Call(server, &v1::PipelineService::Stub::ResumeJob, resume, &job).ok());
  EXPECT_EQ(Watch(server, id, job.last_event()).back().state(), v1::JOB_SUCCEEDED);
}

TEST_F(JobWorkerTest, ContinuesAJobWhoseServerWasShutDown) {
  std::string id;
  {
    PipelineServer server(home_);
    id = MustSubmit(server, SmallSpec(corpus_));
    Watch(server, id, 0, 3);  // it is running
  }
  {
    PipelineServer onlooker(home_, 0);
    EXPECT_NE(Get(onlooker, id).state(), v1::JOB_RUNNING) << "interrupted and queued again";
  }
  PipelineServer server(home_);
  EXPECT_EQ(Watch(server, id).back().state(), v1::JOB_SUCCEEDED);
}

TEST_F(JobWorkerTest, RequeuesJobsOfAKilledProcess) {
  {
    PipelineServer server(home_, 0);
    MustSubmit(server, SmallSpec(corpus_));
    const auto jobs = JobStore::Open(home_);
    ASSERT_TRUE((*jobs)->ClaimNext().ok());
  }
  PipelineServer server(home_);
  EXPECT_EQ(Watch(server, "job-000001").back().state(), v1::JOB_SUCCEEDED);
}

TEST_F(JobWorkerTest, LeavesJobsToTheProcessThatHoldsTheLock) {
  auto lock = FileLock::TryTake(home_ / kWorkerLockFile).value();
  ASSERT_TRUE(lock.has_value());
  PipelineServer server(home_);
  PipelineServer onlooker(home_, 0);
  const std::string id = MustSubmit(onlooker, SmallSpec(corpus_));
  EXPECT_EQ(Watch(onlooker, id, 0, 1).size(), 1u);
  EXPECT_EQ(Get(onlooker, id).state(), v1::JOB_QUEUED);
  lock.reset();
  EXPECT_EQ(Watch(onlooker, id).back().state(), v1::JOB_SUCCEEDED)
      << "submitted and watched through one server, run by the other";
}

TEST_F(JobWorkerTest, RunsJobsConcurrently) {
  PipelineServer server(home_, /*num_workers=*/2);
  v1::CorpusSpec random = SmallSpec(corpus_);
  random.set_order(v1::RANDOM);
  const std::string first = MustSubmit(server, SmallSpec(corpus_));
  const std::string second = MustSubmit(server, random);
  EXPECT_EQ(Watch(server, first).back().state(), v1::JOB_SUCCEEDED);
  EXPECT_EQ(Watch(server, second).back().state(), v1::JOB_SUCCEEDED);
  int made = 0;
  for (const std::string& id : {first, second}) {
    const v1::Job job = Get(server, id);
    for (const v1::StageProgress& stage : job.stages()) made += stage.reused() ? 0 : 1;
  }
  EXPECT_EQ(made, 9) << "five shared stages are made once, order and pack twice";
}

}  // namespace job_worker_test
}  // namespace braid
