// Attempts, principals and turns in JobStore; the retry policy.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/jobs/job_state.h"
#include "pipeline/jobs/job_store.h"
#include "pipeline/jobs/retry_policy.h"
#include "pipeline/store/progress_throttle.h"
#include "pipeline/store/resume_point.h"
#include "pipeline/store/stage_store.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace job_attempts_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(RetryPolicyTest, RetriesExactlyTheTransientCodes) {
  std::string transient;
  for (int code = 1; code <= 16; ++code) {
    if (IsTransient(absl::Status(static_cast<absl::StatusCode>(code), ""))) {
      transient += std::to_string(code) + " ";
    }
  }
  // UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, INTERNAL, UNAVAILABLE
  EXPECT_EQ(transient, "2 4 8 10 13 14 ");
}

TEST(RetryPolicyTest, DelaysIncrease) {
  EXPECT_EQ(RetryDelaySeconds(1, 5), 5);
  EXPECT_EQ(RetryDelaySeconds(2, 5), 30);
  EXPECT_EQ(RetryDelaySeconds(2, 0), 0);
}

class JobAttemptsTest : public testing::Test {
 protected:
  std::string Submit(const std::string& principal = "local", int64_t limit = 0) {
    v1::CorpusSpec spec;
    spec.add_paths("/a.jsonl");
    const auto job = store_->Submit(spec, std::to_string(++num_requests_),
                                    {.principal = principal, .max_unfinished = limit});
    EXPECT_TRUE(job.ok()) << job.status();
    return job->id();
  }
  // Starts the next job and returns its id; empty when there is none.
  std::string Claim() {
    const auto job = *store_->ClaimNext();
    return job ? job->id() : "";
  }
  void Report(const std::string& id, const std::string& stage, int64_t num_resume_points) {
    v1::StageProgress progress;
    progress.set_stage(stage);
    progress.set_num_resume_points(num_resume_points);
    ASSERT_TRUE(store_->RecordProgress(id, progress).ok());
  }

  double now_ = 1000;
  int num_requests_ = 0;
  const std::filesystem::path home_ = NewDirectory();
  const std::unique_ptr<JobStore> store_ = *JobStore::Open(home_, [this] { return now_; });
};

TEST_F(JobAttemptsTest, RetriesAfterADelayAndGivesUpAfterThreeFailures) {
  const std::string id = Submit();
  ASSERT_EQ(Claim(), id);
  ASSERT_TRUE(store_->Retry(id, "embed: host:7078 is away", 5).ok());
  v1::Job job = *store_->Get(id);
  EXPECT_EQ(job.state(), v1::JOB_QUEUED);
  EXPECT_EQ(job.error(), "attempt 1 failed: embed: host:7078 is away");
  EXPECT_EQ(store_->EventsAfter(id, 2)->front().message(),
            "attempt 1 failed: embed: host:7078 is away; queued again in 5 s");
  EXPECT_EQ(Claim(), "") << "before the delay has passed";
  now_ += 4.9;
  EXPECT_EQ(Claim(), "");
  now_ += 0.2;
  ASSERT_EQ(Claim(), id);
  EXPECT_EQ(store_->Get(id)->error(), "");
  ASSERT_TRUE(store_->Retry(id, "embed: host:7078 is away", 5).ok());
  now_ += 29.9;
  EXPECT_EQ(Claim(), "");
  now_ += 0.2;
  ASSERT_EQ(Claim(), id);
  ASSERT_TRUE(store_->Retry(id, "embed: host:7078 is away", 5).ok());
  job = *store_->Get(id);
  EXPECT_EQ(job.state(), v1::JOB_FAILED);
  EXPECT_EQ(job.attempts(), 3);
  EXPECT_THAT(job.error(), HasSubstr("host:7078 is away; giving up: 3 attempts"));

  job = *store_->Resume(id);
  EXPECT_EQ(job.attempts(), 0);
  EXPECT_EQ(Claim(), id) << "a resumed job starts without delay";
  ASSERT_TRUE(store_->Retry(id, "again", 5).ok());
  EXPECT_EQ(store_->Get(id)->state(), v1::JOB_QUEUED) << "a resumed job has three attempts again";
}

TEST_F(JobAttemptsTest, ADelayEndsWhenTheClockIsSetBack) {
  const std::string id = Submit();
  ASSERT_EQ(Claim(), id);
  now_ += 86400;
  ASSERT_TRUE(store_->Retry(id, "embed: host:7078 is away", 5).ok());
  EXPECT_EQ(Claim(), "");
  now_ -= 86400;
  EXPECT_EQ(Claim(), id);
}

TEST_F(JobAttemptsTest, ARequestToCancelOutlivesATransientFailure) {
  const std::string id = Submit();
  ASSERT_EQ(Claim(), id);
  ASSERT_TRUE(store_->RequestCancel(id).ok());
  ASSERT_TRUE(store_->Retry(id, "embed: host:7078 is away", 0).ok());
  EXPECT_EQ(store_->Get(id)->state(), v1::JOB_CANCELLED);
  EXPECT_EQ(Claim(), "");
}

TEST_F(JobAttemptsTest, FailsAJobThatKillsItsProcessAndRunsTheOthers) {
  const std::string poisoned = Submit(), other = Submit();
  int deaths = 0;
  std::vector<std::string> started;
  while (store_->Get(poisoned)->state() != v1::JOB_FAILED) {
    ASSERT_LT(deaths, 10);
    const std::string id = Claim();
    started.push_back(id);
    if (id == poisoned) {
      Report(id, "ingest", 1);
      Report(id, "tokenize", 3);
      ASSERT_TRUE(store_->RequeueOrphans().ok());
      ++deaths;
    } else {
      ASSERT_TRUE(store_->Succeed(id, {}).ok());
    }
  }
  EXPECT_EQ(deaths, kMaxFailures);
  EXPECT_THAT(store_->Get(poisoned)->error(), HasSubstr("without a result in stage tokenize"));
  EXPECT_EQ(Claim(), other);
}

TEST_F(JobAttemptsTest, AttemptsWithProgressResetTheCountOfFailures) {
  const std::string id = Submit();
  for (int64_t point = 1; point <= 20; ++point) {
    ASSERT_EQ(Claim(), id);
    Report(id, "ingest", 1);
    Report(id, "neighbors", point);
    ASSERT_TRUE(store_->RequeueOrphans().ok());
    ASSERT_EQ(store_->Get(id)->state(), v1::JOB_QUEUED) << point;
  }
  EXPECT_EQ(store_->Get(id)->attempts(), 20);
}

// Writes the generated corpus with a large record, which a filter drops, before each of the first
// documents.
void WriteFilteredCorpus(const std::filesystem::path& path) {
  const std::filesystem::path plain = NewDirectory() / "plain.jsonl";
  WriteCorpus(plain);
  std::ifstream in(plain);
  std::ofstream out(path);
  // More than the reader takes from the file at once.
  const std::string padding(size_t{300} << 10, 'x');
  std::string line;
  for (int i = 0; std::getline(in, line); ++i) {
    if (i < 10) {
      out << R"({"text": "dropped", "domain": "none", "padding": ")" << padding << "\"}\n";
    }
    out << line << "\n";
  }
}

// Kills the process of a job as soon as it has saved a resume point, before it reports it.
TEST_F(JobAttemptsTest, EveryResumePointOfAStageResetsTheCountOfFailures) {
  constexpr int kDeaths = kMaxFailures + 2;  // per stage
  const std::filesystem::path corpus = home_ / "filtered.jsonl";
  WriteFilteredCorpus(corpus);
  v1::CorpusSpec spec = SmallSpec(corpus);
  spec.mutable_ingest()->set_where("domain != 'none'");
  const v1::CorpusSpec resolved = ResolveCorpusSpec(spec).value();
  const std::string id = store_->Submit(spec, "filtered")->id();
  StageStore stages(home_ / "store", {.chunk_bytes = 6000});
  std::map<std::string, int> deaths;
  while (true) {
    ASSERT_EQ(Claim(), id);
    ProgressThrottle throttle;
    std::string key, before;
    std::filesystem::path point;
    bool died = false;
    JobHooks hooks;
    hooks.report = [&](const v1::StageProgress& progress) {
      if (progress.key() != key) {
        key = progress.key();
        point = stages.DirectoryOf(progress.stage(), key) += ".tmp";
        point /= kResumePointName;
        before = ReadFile(point).value_or("");
      }
      if (!died && deaths[progress.stage()] < kDeaths &&
          ReadFile(point).value_or(before) != before) {
        died = true;
        ++deaths[progress.stage()];
      }
      if (died || !throttle.Admit(progress, 0)) return;
      ASSERT_TRUE(store_->RecordProgress(id, progress).ok());
    };
    hooks.stop = [&] { return died; };
    const absl::Status status = RunJob(resolved, &stages, hooks).status();
    ASSERT_EQ(status.ok(), !died) << status;
    if (!died) break;
    ASSERT_TRUE(store_->RequeueOrphans().ok());
    ASSERT_EQ(store_->Get(id)->state(), v1::JOB_QUEUED) << store_->Get(id)->error();
  }
  for (const char* stage : {"ingest", "tokenize", "embed", "pack"}) {
    EXPECT_EQ(deaths[stage], kDeaths) << stage;
  }
}

TEST_F(JobAttemptsTest, AnOrderlyInterruptionIsNotAFailure) {
  const std::string id = Submit();
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(Claim(), id);
    ASSERT_TRUE(store_->Requeue(id, "interrupted; queued again").ok());
  }
  EXPECT_EQ(store_->Get(id)->state(), v1::JOB_QUEUED);
}

TEST_F(JobAttemptsTest, PrincipalsTakeTurns) {
  std::map<std::string, std::string> owner;
  for (int i = 0; i < 6; ++i) owner[Submit("greedy")] = "greedy";
  for (int i = 0; i < 2; ++i) owner[Submit("bob")] = "bob";
  for (int i = 0; i < 2; ++i) owner[Submit("carol")] = "carol";
  std::string order;
  std::map<std::string, std::string> last;
  for (size_t i = 0; i < owner.size(); ++i) {
    const std::string id = Claim();
    order += owner[id][0];
    EXPECT_LT(last[owner[id]], id) << "the oldest of a principal first";
    last[owner[id]] = id;
    ASSERT_TRUE(store_->Succeed(id, {}).ok());
  }
  EXPECT_EQ(order, "gbcgbcgggg");
  EXPECT_EQ(store_->Get("job-000007")->principal(), "bob");
}

TEST_F(JobAttemptsTest, PrincipalsHaveAQuota) {
  const std::string first = Submit("alice", 2);
  Submit("alice", 2);
  v1::CorpusSpec spec;
  spec.add_paths("/a.jsonl");
  const absl::Status refused = store_->Submit(spec, "more", {"alice", 2}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the limit is 2"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--quota-jobs"));
  EXPECT_EQ(store_->Submit(spec, "1", {"alice", 2})->id(), first) << "the request is repeated";
  Submit("bob", 2);
  ASSERT_TRUE(store_->RequestCancel(first).ok());
  Submit("alice", 2);
}

TEST_F(JobAttemptsTest, PagesCoverTheListOnce) {
  for (int i = 0; i < 7; ++i) Submit();
  std::vector<std::string> ids;
  for (std::string before;;) {
    const auto page = *store_->List(before, 3);
    for (const v1::Job& job : page) ids.push_back(job.id());
    if (page.size() < 3) break;
    before = page.back().id();
  }
  ASSERT_EQ(ids.size(), 7u);
  EXPECT_EQ(ids.front(), "job-000007");
  EXPECT_EQ(ids.back(), "job-000001");
}

TEST_F(JobAttemptsTest, VersionChangesWithTheJobAndWithOtherProcesses) {
  const std::string a = Submit(), b = Submit();
  uint64_t version_a = store_->VersionOf(a), version_b = store_->VersionOf(b);
  EXPECT_EQ(store_->VersionOf(a), version_a);
  ASSERT_TRUE(store_->RequestCancel(a).ok());
  EXPECT_NE(store_->VersionOf(a), version_a);
  EXPECT_EQ(store_->VersionOf(b), version_b);
  const auto other = *JobStore::Open(home_);
  version_a = store_->VersionOf(a);
  ASSERT_TRUE(other->RequestCancel(b).ok());
  EXPECT_NE(store_->VersionOf(b), version_b);
}

// Checks every call that changes the state of a job, from every state: it either makes a legal
// transition and adds one event, or is refused and changes nothing.
TEST_F(JobAttemptsTest, EveryCallMakesALegalTransitionOrChangesNothing) {
  using Call = absl::Status (*)(JobStore&, const std::string&);
  const std::vector<Call> calls = {
      [](JobStore& store, const std::string& id) { return store.RequestCancel(id).status(); },
      [](JobStore& store, const std::string& id) { return store.Resume(id).status(); },
      [](JobStore& store, const std::string& id) { return store.Succeed(id, {}); },
      [](JobStore& store, const std::string& id) { return store.Fail(id, "x"); },
      [](JobStore& store, const std::string& id) { return store.MarkCancelled(id); },
      [](JobStore& store, const std::string& id) { return store.Requeue(id, "x"); },
      [](JobStore& store, const std::string& id) { return store.Retry(id, "x", 0); },
      [](JobStore& store, const std::string&) { return store.ClaimNext().status(); },
      [](JobStore& store, const std::string&) { return store.RequeueOrphans(); },
  };
  const std::vector<std::vector<size_t>> paths = {{}, {7}, {7, 2}, {7, 3}, {0}};  // each state
  for (const std::vector<size_t>& path : paths) {
    for (size_t call = 0; call < calls.size(); ++call) {
      const std::string id = Submit();
      for (const size_t step : path) ASSERT_TRUE(calls[step](*store_, id).ok());
      const v1::Job before = *store_->Get(id);
      const absl::Status status = calls[call](*store_, id);
      const v1::Job after = *store_->Get(id);
      SCOPED_TRACE(v1::JobState_Name(before.state()) + ", call " + std::to_string(call));
      if (after.state() != before.state()) {
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_TRUE(IsLegalTransition(before.state(), after.state()));
        EXPECT_EQ(store_->EventsAfter(id, before.last_event())->front().state(), after.state());
      }
      EXPECT_TRUE(status.ok() || after.last_event() == before.last_event());
      // Keeps the job from being claimed next.
      store_->RequestCancel(id).IgnoreError();
      store_->MarkCancelled(id).IgnoreError();
    }
  }
}

TEST_F(JobAttemptsTest, UpgradesADatabaseOfVersionOne) {
  const std::filesystem::path home = NewDirectory();
  {
    SQLite::Database old((home / "jobs.sqlite").string(),
                         SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    old.exec(
        "CREATE TABLE jobs(id INTEGER PRIMARY KEY AUTOINCREMENT, request_id TEXT NOT NULL UNIQUE,"
        " spec BLOB NOT NULL, state INTEGER NOT NULL, error TEXT NOT NULL DEFAULT '',"
        " stages BLOB NOT NULL DEFAULT x'', result BLOB,"
        " cancel_requested INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL,"
        " finished REAL NOT NULL DEFAULT 0);"
        "CREATE INDEX jobs_by_state ON jobs(state, id);"
        "CREATE TABLE events(job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,"
        " number INTEGER NOT NULL, event BLOB NOT NULL, PRIMARY KEY(job, number)) WITHOUT ROWID;"
        "INSERT INTO jobs(request_id, spec, state, created) VALUES('mine', x'', 1, 12.5);"
        "PRAGMA user_version=1");
  }
  for (int open = 0; open < 2; ++open) {
    const auto store = *JobStore::Open(home);
    const v1::Job job = *store->Get("job-000001");
    EXPECT_EQ(job.created_at(), 12.5);
    EXPECT_EQ(job.principal(), "local");
    EXPECT_EQ(store->Submit({}, "mine")->id(), "job-000001");
    EXPECT_FALSE(store->OfRequest("mine", "ada")->has_value()) << "another principal";
  }
  EXPECT_EQ((*(*JobStore::Open(home))->ClaimNext())->attempts(), 1);
}

}  // namespace job_attempts_test
}  // namespace braid
