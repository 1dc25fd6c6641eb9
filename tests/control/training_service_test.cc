#include "control/training_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <thread>

#include "base/clock.h"
#include "control/run_store.h"
#include "control/supervision/run_event_log.h"
#include "control/supervision/run_process.h"
#include "runs/process_identity.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace training_service_test {

using testing::HasSubstr;

class TrainingServiceTest : public ControlFixture {
 protected:
  TrainingServiceTest() { Start(Options()); }
  ~TrainingServiceTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_ = nullptr;
    service_ = nullptr;  // it would restart the supervisors
    // Kills what a failed expectation has left running.
    for (const auto& entry : std::filesystem::directory_iterator(root_ / "home/runs")) {
      const RunDirectory run(entry.path());
      if (const auto supervisor = ReadProcessRecord(run.process());
          supervisor.ok() && IsAlive(supervisor->identity)) {
        kill(static_cast<pid_t>(supervisor->identity.pid), SIGKILL);
      }
      for (int64_t pid : RankProcesses(run)) kill(static_cast<pid_t>(pid), SIGKILL);
    }
  }

  ControlOptions Options() const {
    ControlOptions options = ControlFixture::Options();
    options.supervisor_binary = BRAID_SUPERVISOR;
    return options;
  }
  v1::RunSpec Spec(const std::string& name) const {
    v1::RunSpec spec = ControlFixture::Spec(name);
    spec.mutable_supervision()->set_max_restarts(0);
    return spec;
  }

  // Replaces the control plane by a new one over the same home.
  void Start(const ControlOptions& options) {
    server_ = nullptr;
    service_ = MakeTrainingService(options).value();
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::TrainingService::NewStub(server_->InProcessChannel(grpc::ChannelArguments()));
  }

  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
  template <class Request, class Response>
  grpc::Status Call(grpc::Status (v1::TrainingService::Stub::*method)(grpc::ClientContext*,
                                                                      const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return (stub_.get()->*method)(&context, request, response);
  }
  template <class Request>
  static Request WithId(const std::string& id) {
    Request request;
    request.set_id(id);
    return request;
  }
  grpc::Status Launch(const v1::RunSpec& spec, const std::string& request_id, v1::Run* run) {
    v1::LaunchRunRequest request;
    *request.mutable_spec() = spec;
    request.set_request_id(request_id);
    return Call(&v1::TrainingService::Stub::LaunchRun, request, run);
  }
  v1::Run Launched(const std::string& name) {
    v1::Run run;
    const grpc::Status status = Launch(Spec(name), "", &run);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return run;
  }
  v1::Run Get(const std::string& id) {
    v1::Run run;
    EXPECT_TRUE(Call(&v1::TrainingService::Stub::GetRun, WithId<v1::GetRunRequest>(id), &run).ok());
    return run;
  }
  grpc::Status Stop(const std::string& id, v1::Run* run) {
    return Call(&v1::TrainingService::Stub::StopRun, WithId<v1::StopRunRequest>(id), run);
  }
  grpc::Status Resume(const std::string& id, v1::Run* run) {
    return Call(&v1::TrainingService::Stub::ResumeRun, WithId<v1::ResumeRunRequest>(id), run);
  }
  v1::ListRunsResponse List(const v1::ListRunsRequest& request = {}) {
    v1::ListRunsResponse page;
    EXPECT_TRUE(Call(&v1::TrainingService::Stub::ListRuns, request, &page).ok());
    return page;
  }
  std::vector<v1::RunEvent> Watch(const std::string& id, int64_t after) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::WatchRunRequest request;
    request.set_id(id);
    request.set_after_event(after);
    auto reader = stub_->WatchRun(&context, request);
    std::vector<v1::RunEvent> events;
    for (v1::RunEvent event; reader->Read(&event);) events.push_back(event);
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return events;
  }

  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::TrainingService::Stub> stub_;
};

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

TEST_F(TrainingServiceTest, PrincipalHasItsLimitOfRunsUntilOneEnds) {
  ControlOptions options = Options();
  options.max_runs = 1;
  Start(options);
  v1::Run first = Launched("endless"), second;
  const grpc::Status refused = Launch(Spec("quick"), "", &second);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("--quota-runs"));
  ASSERT_TRUE(Stop(first.id(), &first).ok());
  EXPECT_TRUE(Launch(Spec("quick"), "", &second).ok()) << "without waiting for the next check";
}

TEST_F(TrainingServiceTest, SameRequestIdLaunchesOnce) {
  v1::Run first, second, third;
  ASSERT_TRUE(Launch(Spec("endless"), "mine", &first).ok());
  ASSERT_TRUE(Launch(Spec("endless"), "mine", &second).ok());
  EXPECT_EQ(first.id(), second.id());
  EXPECT_EQ(Launch(Spec("quick"), "mine", &third).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  ASSERT_TRUE(Stop(first.id(), &first).ok());
}

// The service was killed between the record and the process, and the request is repeated much
// later.
TEST_F(TrainingServiceTest, InterruptedLaunchIsCompletedByTheSameRequest) {
  const auto store = RunStore::Open(root_ / "home").value();
  const RunRecord record =
      store->Create("mine", Spec("endless").SerializeAsString(), /*now=*/1).value();
  ASSERT_TRUE(Eventually([&] { return !store->Get(record.id)->active; })) << "it is settled";
  EXPECT_THAT(Get(record.id).error(), HasSubstr("never started"));
  v1::Run run;
  ASSERT_TRUE(Launch(Spec("endless"), "mine", &run).ok());
  EXPECT_EQ(run.id(), record.id);
  EXPECT_TRUE(Eventually([&] { return Get(record.id).state() == v1::RUN_RUNNING; }));
  EXPECT_TRUE(store->Get(record.id)->active) << "it is active again";
  ASSERT_TRUE(Stop(run.id(), &run).ok());
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

TEST_F(TrainingServiceTest, RefusesNamesThatDoNotFitIntoAListing) {
  for (const std::string& name : {std::string("a\nb\x1b[31mX"), std::string(100000, 'x')}) {
    v1::Run run;
    const grpc::Status status = Launch(Spec(name), "", &run);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("name: got "));
  }
  EXPECT_EQ(List().runs_size(), 0);
}

// FindStartingPoint refuses an average, once the run is found.
TEST_F(TrainingServiceTest, FindsARunWhoseAverageIsNamed) {
  const v1::Run first = Launched("quick");
  Watch(first.id(), 0);
  v1::RunSpec spec = Spec("quick");
  spec.set_init_from(first.id() + "@ema");
  v1::Run run;
  EXPECT_THAT(Launch(spec, "", &run).error_message(),
              HasSubstr(first.run_dir() + " holds no checkpoint yet"));
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

// Fake programs of Slurm; sbatch refuses jobs while a file "refuse" exists.
TEST_F(TrainingServiceTest, RunRefusedByItsSchedulerFailsAndCanBeResumed) {
  const std::string root = root_.string();
  const auto program = [&](const std::string& path, const std::string& body) {
    Write(root_ / path, "#!/bin/sh\n" + body + "\n");
    std::filesystem::permissions(root_ / path, std::filesystem::perms::owner_all);
  };
  program("mpirun", "echo 'mpirun (Open MPI) 4.1.4'");
  program("bin/sbatch", "if [ -e " + root +
                            "/refuse ]; then echo 'invalid partition' >&2; exit 1; "
                            "fi; echo 7 | tee " +
                            root + "/job");
  program("bin/squeue", "[ ! -e " + root + "/job ] || echo '7|PENDING|Resources|mine'");
  program("bin/scancel", "rm -f " + root + "/job");
  program("bin/sacct", "exit 1");
  Write(root_ / "refuse", "");
  const std::string path = getenv("PATH");
  setenv("PATH", (root + "/bin:" + path).c_str(), 1);
  ControlOptions options = Options();
  options.max_runs = 1;
  Start(options);
  v1::RunSpec spec = Spec("quick");
  spec.mutable_launch()->set_backend(v1::SLURM);
  spec.mutable_launch()->mutable_slurm()->set_nodes(1);
  spec.mutable_launch()->mutable_slurm()->set_time_limit_minutes(60);
  v1::Run run;
  for (int i = 0; i < 2; ++i) {
    const grpc::Status refused = Launch(spec, "mine", &run);
    EXPECT_THAT(refused.error_message(), HasSubstr("run-000001: sbatch failed with exit code 1"));
    run = Get("run-000001");
    EXPECT_EQ(run.state(), v1::RUN_FAILED);
    EXPECT_THAT(run.error(), HasSubstr("invalid partition"));
    EXPECT_TRUE(RunStore::Open(root_ / "home").value()->Active()->empty());
  }
  EXPECT_FALSE(Resume(run.id(), &run).ok());
  EXPECT_EQ(Get("run-000001").state(), v1::RUN_FAILED);
  const std::vector<v1::RunEvent> events = Watch("run-000001", 0);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0].final().error(), HasSubstr("invalid partition"));

  std::filesystem::remove(root_ / "refuse");
  const grpc::Status resumed = Resume("run-000001", &run);
  EXPECT_TRUE(resumed.ok()) << resumed.error_message();
  EXPECT_EQ(run.state(), v1::RUN_QUEUED);
  EXPECT_EQ(run.scheduler_job(), "7");
  EXPECT_EQ(Launch(spec, "", &run).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(Stop("run-000001", &run).ok());
  EXPECT_EQ(run.state(), v1::RUN_STOPPED);
  server_->Shutdown();
  setenv("PATH", path.c_str(), 1);
}

// The service died between the record of the run and its start, and a keeper has settled it.
TEST_F(TrainingServiceTest, LaunchCompletedLaterIsActive) {
  const auto store = RunStore::Open(root_ / "home").value();
  std::string bytes;
  Spec("endless").SerializeToString(&bytes);
  const RunRecord record = store->Create("mine", bytes, 1).value();
  ASSERT_TRUE(Eventually([&] { return store->Active()->empty(); }));
  v1::Run run;
  ASSERT_TRUE(Launch(Spec("endless"), "mine", &run).ok());
  EXPECT_EQ(run.id(), record.id);
  EXPECT_EQ(store->Active()->size(), 1u);
  ASSERT_TRUE(Eventually([&] { return Get(run.id()).state() == v1::RUN_RUNNING; }));
  EXPECT_TRUE(Stop(run.id(), &run).ok());
}

}  // namespace training_service_test
}  // namespace braid
