#include "control/training_service.h"

#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "control/run_store.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_process.h"
#include "runs/process_identity.h"
#include "tests/control/training_service_fixture.h"

namespace braid {
namespace training_service_test {

using testing::ElementsAre;
using testing::HasSubstr;

class TrainingServiceTest : public TrainingServiceFixture {};

TEST_F(TrainingServiceTest, LaunchesAndWatchesToTheEnd) {
  const v1::Run run = Launched("quick");
  EXPECT_EQ(run.id(), "run-000001");
  EXPECT_EQ(run.spec().world_size(), 1);
  EXPECT_EQ(run.principal(), "local");
  EXPECT_GT(run.spec().num_steps(), 0);
  const std::vector<v1::RunEvent> events = Watch(run.id(), 0);
  ASSERT_FALSE(events.empty());
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].number(), static_cast<int64_t>(i) + 1);
  }
  EXPECT_EQ(events.back().final().state(), v1::RUN_SUCCEEDED);
  EXPECT_EQ(events.back().final().latest().step(), 10);
  EXPECT_GT(events.back().final().finished_at(), 0);
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(run.run_dir()) / "tokenizer.model"));
}

// What a supervisor would write, written by the test.
TEST_F(TrainingServiceTest, WatchesALogWhileItGrowsAndFromAnyNumber) {
  const RunRecord record = RunStore::Open(root_ / "home").value()->Create("", "x", 1).value();
  std::filesystem::create_directories(record.run_dir);
  std::thread writer([&] {
    auto log = RunEventLog::Open(record.run_dir / "events.jsonl").value();
    for (int step = 0; step <= 201; ++step) {
      v1::RunEvent event;
      if (step > 0 && step <= 200) event.mutable_metrics()->set_step(step);
      if (step == 0) event.set_state(v1::RUN_STARTING);
      if (step == 1) event.set_state(v1::RUN_RUNNING);
      if (step == 201) event.set_state(v1::RUN_SUCCEEDED);
      ASSERT_TRUE(log->Append(&event).ok());
      if (step % 16 == 0) poll(nullptr, 0, 10);
    }
  });
  const std::vector<v1::RunEvent> events = Watch(record.id, 0);
  writer.join();
  ASSERT_EQ(events.size(), 202u);
  for (int i = 0; i < 202; ++i) EXPECT_EQ(events[i].number(), i + 1);
  EXPECT_EQ(events[200].metrics().step(), 200);
  EXPECT_EQ(events.back().final().state(), v1::RUN_SUCCEEDED);
  EXPECT_EQ(Watch(record.id, 199).size(), 3u);
  EXPECT_EQ(Watch(record.id, 202).size(), 0u) << "it ends, for there is nothing after";
}

// The run is on another machine, and sends neither events nor heartbeats.
TEST_F(TrainingServiceTest, WatchOfALostRunEnds) {
  const auto store = RunStore::Open(root_ / "home").value();
  const RunRecord record = store->Create("", "x", UnixTime()).value();
  const RunDirectory run(record.run_dir);
  std::filesystem::create_directories(record.run_dir);
  ASSERT_TRUE(run.WriteSpec(Spec("endless")).ok());
  ProcessRecord supervisor{
      .identity = IdentifyProcess(getpid()).value(), .nonce = "n", .launched_at = UnixTime()};
  supervisor.identity.boot_id = "another boot";
  supervisor.identity.machine = "another machine";
  ASSERT_TRUE(WriteProcessRecord(run.process(), supervisor).ok());
  auto log = RunEventLog::Open(run.events()).value();
  v1::RunEvent event;
  for (const v1::RunState state : {v1::RUN_STARTING, v1::RUN_RUNNING}) {
    event.set_state(state);
    ASSERT_TRUE(log->Append(&event).ok());
  }
  std::vector<std::thread> watchers;
  for (int64_t after = 0; after <= 2; ++after) {
    watchers.emplace_back([this, after, id = record.id] {
      const std::vector<v1::RunEvent> events = Watch(id, after);
      ASSERT_EQ(std::ssize(events), 3 - after);
      EXPECT_EQ(events.back().number(), 3);
      EXPECT_EQ(events.back().final().state(), v1::RUN_FAILED);
      EXPECT_THAT(events.back().final().error(), HasSubstr("lost"));
    });
  }
  for (std::thread& watcher : watchers) watcher.join();
  EXPECT_TRUE(Watch(record.id, 3).empty()) << "it ends, for there is nothing after";
}

TEST_F(TrainingServiceTest, PagesCoverTheListOnceNewestFirst) {
  const auto store = RunStore::Open(root_ / "home").value();
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(store->Create("", "x", 1).ok());
  std::vector<std::string> ids;
  v1::ListRunsRequest request;
  request.set_page_size(3);
  do {
    const v1::ListRunsResponse page = List(request);
    EXPECT_LE(page.runs_size(), 3);
    for (const v1::Run& run : page.runs()) ids.push_back(run.id());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  ASSERT_EQ(ids.size(), 7u);
  EXPECT_EQ(ids.front(), "run-000007");
  EXPECT_EQ(ids.back(), "run-000001");
}

TEST_F(TrainingServiceTest, TheRunAtTheEndOfAPageMayBeDeletedBeforeTheNextPage) {
  const auto store = RunStore::Open(root_ / "home").value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(store->Create("", "x", 1).ok());
  v1::ListRunsRequest request;
  request.set_page_size(2);
  request.set_page_token(List(request).next_page_token());
  ASSERT_EQ(request.page_token(), "run-000002");
  ASSERT_TRUE(store->Delete(store->Get("run-000002").value(), "alice", 2).ok());
  const v1::ListRunsResponse page = List(request);
  ASSERT_EQ(page.runs_size(), 1);
  EXPECT_EQ(page.runs(0).id(), "run-000001");
}

TEST_F(TrainingServiceTest, PageMayEndWithADamagedRecord) {
  const auto store = RunStore::Open(root_ / "home").value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(store->Create("", "x", 1).ok());
  SQLite::Database((root_ / "home/runs.sqlite").string(), SQLite::OPEN_READWRITE, 10000)
      .exec("UPDATE runs SET principal = 'another' WHERE number = 2");
  std::vector<std::string> ids;
  v1::ListRunsRequest request;
  request.set_page_size(1);
  do {
    const v1::ListRunsResponse page = List(request);
    for (const v1::Run& run : page.runs()) ids.push_back(run.id());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(ids, ElementsAre("run-000003", "run-000002", "run-000001"));
}

TEST_F(TrainingServiceTest, StopsAndResumes) {
  v1::Run run = Launched("endless");
  ASSERT_TRUE(Eventually([&] { return Get(run.id()).state() == v1::RUN_RUNNING; }));
  ASSERT_TRUE(Eventually([&] { return Get(run.id()).latest().step() >= 3; }));
  run = Get(run.id());
  EXPECT_EQ(run.heartbeats_size(), 1);
  v1::Run ignored;
  EXPECT_EQ(Resume(run.id(), &ignored).error_code(), grpc::StatusCode::FAILED_PRECONDITION);

  ASSERT_TRUE(Stop(run.id(), &run).ok());
  EXPECT_EQ(run.state(), v1::RUN_STOPPED);
  const int64_t stopped_at = run.latest().step();
  ASSERT_TRUE(Stop(run.id(), &run).ok()) << "stopping twice is harmless";

  ASSERT_TRUE(Resume(run.id(), &run).ok());
  ASSERT_TRUE(Eventually([&] { return Get(run.id()).latest().step() > stopped_at; }));
  ASSERT_TRUE(Eventually([&] { return Get(run.id()).state() == v1::RUN_RUNNING; }));
  ASSERT_TRUE(Stop(run.id(), &run).ok());
  EXPECT_EQ(run.state(), v1::RUN_STOPPED);
}

TEST_F(TrainingServiceTest, FinishedRunIsNotResumed) {
  v1::Run run = Launched("quick");
  Watch(run.id(), 0);
  const grpc::Status status = Resume(run.id(), &run);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("finished"));
}

TEST_F(TrainingServiceTest, FailureCarriesItsCause) {
  const std::vector<v1::RunEvent> events = Watch(Launched("failing").id(), 0);
  EXPECT_EQ(events.back().final().state(), v1::RUN_FAILED);
  EXPECT_EQ(events.back().final().error(), "loss is NaN at step 3");
}

TEST_F(TrainingServiceTest, CrashCarriesTheEndOfTheLog) {
  const std::vector<v1::RunEvent> events = Watch(Launched("crashing").id(), 0);
  EXPECT_EQ(events.back().final().state(), v1::RUN_FAILED);
  EXPECT_THAT(events.back().final().error(), HasSubstr("out of <imaginary> memory"));
}

TEST_F(TrainingServiceTest, RunOutlivesTheControlPlane) {
  v1::Run run = Launched("endless");
  ASSERT_TRUE(Eventually([&] { return Get(run.id()).state() == v1::RUN_RUNNING; }));
  const int64_t step = Get(run.id()).latest().step();
  Start(Options());
  ASSERT_TRUE(Eventually([&] { return Get(run.id()).latest().step() > step; }));
  ASSERT_TRUE(Stop(run.id(), &run).ok());
  EXPECT_EQ(run.state(), v1::RUN_STOPPED);
}

TEST_F(TrainingServiceTest, CancelledWatchEnds) {
  const v1::Run run = Launched("endless");
  grpc::ClientContext context;
  v1::WatchRunRequest request;
  request.set_id(run.id());
  auto reader = stub_->WatchRun(&context, request);
  reader->WaitForInitialMetadata();
  v1::RunEvent event;
  context.TryCancel();
  while (reader->Read(&event)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  v1::Run stopped;
  EXPECT_TRUE(Stop(run.id(), &stopped).ok());
}

TEST_F(TrainingServiceTest, BadRequestsAreClearErrors) {
  v1::Run run;
  EXPECT_EQ(Stop("run-000077", &run).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Resume("run-000077", &run).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::RunSpec spec = Spec("quick");
  spec.set_dataset_dir("/no/such/dataset");
  const grpc::Status status = Launch(spec, "", &run);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.error_message(), HasSubstr("/no/such/dataset"));
  EXPECT_EQ(List().runs_size(), 0) << "a refused request leaves no run";
}

}  // namespace training_service_test
}  // namespace braid
