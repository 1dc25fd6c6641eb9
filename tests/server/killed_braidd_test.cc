// A real braidd that is killed at random times: acknowledged submits are neither lost nor
// duplicated, jobs continue, and watchers miss no event.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_lock.h"
#include "braid/v1/pipeline.grpc.pb.h"
#include "pipeline/jobs/job_worker.h"
#include "rpc/pipeline_client.h"
#include "tests/server/real_braidd.h"

namespace braid {
namespace killed_braidd_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

class KilledBraiddTest : public testing::Test {
 protected:
  KilledBraiddTest()
      : root_(fs::path(testing::TempDir()) /
              absl::StrCat("braid-killed-",
                           testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
                           getpid())),
        braidd_(BRAID_BIN_DIR "/braidd", root_, {"--services", "pipeline", "--quota-jobs", "0"}) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "home");
  }
  ~KilledBraiddTest() override {
    braidd_.Kill();
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  // A corpus of random words that takes a few seconds.
  v1::CorpusSpec Spec(int num_documents) {
    const fs::path corpus = root_ / absl::StrCat("corpus-", num_documents, ".jsonl");
    static constexpr const char* kSyllables[] = {"ba", "de", "ki", "lo", "mu", "ra", "se", "ti"};
    std::mt19937 random(1);
    std::ofstream file(corpus);
    for (int i = 0; i < num_documents; ++i) {
      file << "{\"id\":\"" << i << "\",\"text\":\"";
      for (int word = 0; word < 60; ++word) {
        file << kSyllables[random() % 8] << kSyllables[random() % 8] << kSyllables[random() % 8]
             << " ";
      }
      file << "\"}\n";
    }
    v1::CorpusSpec spec;
    spec.add_paths(corpus.string());
    spec.mutable_tokenizer()->set_vocab_size(300);
    spec.mutable_pack()->set_sequence_length(256);
    spec.set_num_threads(1);
    return spec;
  }

  const fs::path root_;
  RealBraidd braidd_;
};

struct Submits {
  std::mutex mutex;
  std::map<std::string, std::string> acknowledged;  // request id -> job
  std::set<std::string> unknown;                    // without a response

  size_t size() {
    std::lock_guard lock(mutex);
    return acknowledged.size();
  }
};

grpc::Status Submit(v1::PipelineService::Stub& stub, const v1::CorpusSpec& spec,
                    const std::string& request_id, v1::Job* job) {
  v1::SubmitCorpusRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  return stub.SubmitCorpus(&context, request, job);
}

// Submits jobs until a call fails.
void SubmitUntilItDies(v1::PipelineService::Stub& stub, const v1::CorpusSpec& spec,
                       const std::string& prefix, Submits* submits) {
  for (int i = 0;; ++i) {
    const std::string request_id = absl::StrCat(prefix, "-", i);
    v1::Job job;
    const grpc::Status status = Submit(stub, spec, request_id, &job);
    std::lock_guard lock(submits->mutex);
    if (!status.ok()) {
      submits->unknown.insert(request_id);
      return;
    }
    submits->acknowledged[request_id] = job.id();
  }
}

TEST_F(KilledBraiddTest, EveryAcknowledgedSubmitExistsExactlyOnce) {
  constexpr int kRounds = 4, kInFlight = 32;
  const v1::CorpusSpec spec = Spec(10);
  // The lock keeps the server from running jobs; only the list matters.
  const auto lock = FileLock::TryTake(root_ / "home" / kWorkerLockFile).value();
  ASSERT_TRUE(lock.has_value());
  Submits submits;
  std::mt19937 random(5);
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_TRUE(braidd_.Start());
    const auto stub = v1::PipelineService::NewStub(braidd_.Connect());
    const size_t before = submits.size();
    std::vector<std::thread> threads;
    for (int t = 0; t < kInFlight; ++t) {
      threads.emplace_back([&, prefix = absl::StrCat(round, "-", t)] {
        SubmitUntilItDies(*stub, spec, prefix, &submits);
      });
    }
    const size_t enough = before + 10 + random() % 100;
    for (int tries = 0; tries < 2000 && submits.size() < enough; ++tries) poll(nullptr, 0, 5);
    braidd_.Kill();
    for (std::thread& thread : threads) thread.join();
    EXPECT_GE(submits.size(), enough);
  }

  ASSERT_TRUE(braidd_.Start());
  const auto channel = braidd_.Connect();
  const auto stub = v1::PipelineService::NewStub(channel);
  PipelineClient client(channel);
  std::multiset<std::string> listed;
  const v1::ListJobsResponse list = *client.ListJobs();
  for (const v1::Job& job : list.jobs()) listed.insert(job.id());
  for (const auto& [request_id, id] : submits.acknowledged) {
    ASSERT_EQ(listed.count(id), 1u) << request_id;
  }
  // A repeated request returns the existing job, also for requests that had no response.
  std::set<std::string> jobs;
  for (const auto& [request_id, id] : submits.acknowledged) {
    v1::Job job;
    ASSERT_TRUE(Submit(*stub, spec, request_id, &job).ok());
    ASSERT_EQ(job.id(), id);
    ASSERT_TRUE(jobs.insert(id).second) << "two requests share " << id;
  }
  for (const std::string& request_id : submits.unknown) {
    v1::Job job;
    ASSERT_TRUE(Submit(*stub, spec, request_id, &job).ok());
    ASSERT_TRUE(jobs.insert(job.id()).second);
  }
  EXPECT_EQ(client.ListJobs()->jobs_size(), static_cast<int>(jobs.size()));
  v1::CorpusSpec other = spec;
  other.set_seed(99);
  v1::Job job;
  EXPECT_EQ(Submit(*stub, other, submits.acknowledged.begin()->first, &job).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
}

// Watches a job with several calls of random length, also while the server is down. Returns whether
// the events were 1, 2, 3, ... up to the end.
bool WatchInPieces(v1::PipelineService::Stub& stub, const std::string& id, int seed,
                   int64_t* number) {
  std::mt19937 random(seed);
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(90);
  while (std::chrono::system_clock::now() < deadline) {
    v1::WatchJobRequest request;
    request.set_id(id);
    request.set_after_event(*number);
    grpc::ClientContext context;
    context.set_deadline(deadline);
    const auto reader = stub.WatchJob(&context, request);
    v1::JobEvent event;
    int patience = static_cast<int>(random() % 15);
    while (patience-- > 0 && reader->Read(&event)) {
      if (event.number() != *number + 1) return false;
      ++*number;
    }
    const bool cut = patience < 0;
    if (cut) context.TryCancel();
    while (cut && reader->Read(&event)) {
    }
    if (reader->Finish().ok() && !cut) return true;
    poll(nullptr, 0, static_cast<int>(random() % 30));
  }
  return false;
}

TEST_F(KilledBraiddTest, JobContinuesAndWatchersSeeEveryEventOnce) {
  ASSERT_TRUE(braidd_.Start());
  const auto channel = braidd_.Connect();
  const auto stub = v1::PipelineService::NewStub(channel);
  v1::Job job;
  const grpc::Status submitted = Submit(*stub, Spec(4000), "mine", &job);
  ASSERT_TRUE(submitted.ok()) << submitted.error_message();
  constexpr int kWatchers = 4;
  std::vector<int64_t> numbers(kWatchers, 0);
  std::atomic<int> complete{0};
  std::vector<std::thread> watchers;
  for (int w = 0; w < kWatchers; ++w) {
    watchers.emplace_back(
        [&, w] { complete += WatchInPieces(*stub, job.id(), w, &numbers[w]) ? 1 : 0; });
  }
  std::set<std::string> kill_in = {"tokenize", "neighbors", "pack"};
  int64_t number = 0;
  int kills = 0;
  PipelineClient client(channel);
  const absl::Status watched = client.WatchJob(job.id(), [&](const v1::JobEvent& event) {
    EXPECT_EQ(event.number(), number + 1);
    number = event.number();
    if (kill_in.erase(event.progress().stage()) > 0) {
      braidd_.Kill();
      ++kills;
      EXPECT_TRUE(braidd_.Start());
    }
    return true;
  });
  EXPECT_TRUE(watched.ok()) << watched;
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_EQ(complete, kWatchers);
  // A new connection is needed, since the last kill may have followed the last event.
  job = *PipelineClient(braidd_.Connect()).GetJob(job.id());
  EXPECT_EQ(job.state(), v1::JOB_SUCCEEDED) << job.error();
  EXPECT_EQ(kills, 3);
  EXPECT_GE(job.attempts(), 2);
  EXPECT_TRUE(job.stages(0).reused()) << "what was done is not done again";
  EXPECT_EQ(number, job.last_event());
  for (const int64_t reached : numbers) EXPECT_EQ(reached, job.last_event());
}

TEST_F(KilledBraiddTest, JobWhoseProcessAlwaysDiesFailsAndTheNextRuns) {
  ASSERT_TRUE(braidd_.Start());
  auto stub = v1::PipelineService::NewStub(braidd_.Connect());
  v1::Job poisoned, other;
  ASSERT_TRUE(Submit(*stub, Spec(4000), "a", &poisoned).ok());
  ASSERT_TRUE(Submit(*stub, Spec(20), "b", &other).ok());
  PipelineClient client(braidd_.Connect());
  int kills = 0;
  EXPECT_TRUE(client
                  .WatchJob(poisoned.id(),
                            [&](const v1::JobEvent& event) {
                              if (event.state() != v1::JOB_RUNNING || event.has_progress()) {
                                return true;
                              }
                              braidd_.Kill();
                              ++kills;
                              EXPECT_TRUE(braidd_.Start());
                              return kills < 9;
                            })
                  .ok());
  poisoned = *client.GetJob(poisoned.id());
  EXPECT_EQ(poisoned.state(), v1::JOB_FAILED);
  EXPECT_THAT(poisoned.error(), HasSubstr("ended without a result"));
  EXPECT_THAT(poisoned.error(), HasSubstr("giving up: 3 attempts"));
  EXPECT_GE(kills, 3);
  EXPECT_EQ(poisoned.attempts(), kills);
  EXPECT_TRUE(client.WatchJob(other.id(), [](const v1::JobEvent&) { return true; }).ok());
  EXPECT_EQ(client.GetJob(other.id())->state(), v1::JOB_SUCCEEDED);
}

}  // namespace killed_braidd_test
}  // namespace braid
