// Requests to launch a run that are repeated, interrupted, limited or refused.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/launch/launcher.h"
#include "control/run_store.h"
#include "rpc/grpc_caller.h"
#include "tests/control/training_service_fixture.h"

namespace braid {
namespace launch_request_test {

using testing::HasSubstr;

class LaunchRequestTest : public TrainingServiceFixture {};

TEST_F(LaunchRequestTest, PrincipalHasItsLimitOfRunsUntilOneEnds) {
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

TEST_F(LaunchRequestTest, SameRequestIdLaunchesOnce) {
  v1::Run first, second, third;
  ASSERT_TRUE(Launch(Spec("endless"), "mine", &first).ok());
  ASSERT_TRUE(Launch(Spec("endless"), "mine", &second).ok());
  EXPECT_EQ(first.id(), second.id());
  EXPECT_EQ(Launch(Spec("quick"), "mine", &third).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  ASSERT_TRUE(Stop(first.id(), &first).ok());
}

TEST_F(LaunchRequestTest, RepeatedRequestReturnsItsRunAfterItsDataWasDeleted) {
  v1::Run first, again;
  ASSERT_TRUE(Launch(Spec("quick"), "mine", &first).ok());
  Watch(first.id(), 0);
  std::filesystem::remove_all(root_ / "dataset");
  EXPECT_FALSE(Launch(Spec("quick"), "other", &again).ok());
  const grpc::Status repeated = Launch(Spec("quick"), "mine", &again);
  EXPECT_TRUE(repeated.ok()) << repeated.error_message();
  EXPECT_EQ(again.id(), first.id());
}

// The service was killed between the record and the process, and the request is repeated much
// later.
TEST_F(LaunchRequestTest, InterruptedLaunchIsCompletedByTheSameRequest) {
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

TEST_F(LaunchRequestTest, RequestIdOfAnotherPrincipalDoesNotCompleteOrReturnItsRun) {
  const auto store = RunStore::Open(root_ / "home").value();
  const RunRecord record =
      store->Create("hers", Spec("quick").SerializeAsString(), UnixTime(), {.principal = "ann"})
          .value();
  v1::LaunchRunRequest request;
  *request.mutable_spec() = Spec("quick");
  request.set_request_id("hers");
  const auto launch = [&](const std::string& who) {
    grpc::ClientContext context;
    SetDeadline(&context);
    SetCaller(who, /*is_operator=*/false, &context);
    v1::Run run;
    const grpc::Status status = stub_->LaunchRun(&context, request, &run);
    EXPECT_TRUE(status.ok()) << who << ": " << status.error_message();
    return run.id();
  };
  const std::string his = launch("bob");
  EXPECT_NE(his, record.id);
  EXPECT_EQ(store->Get(his)->principal, "bob");
  EXPECT_FALSE(WasStarted(RunDirectory(record.run_dir)));
  EXPECT_EQ(launch("ann"), record.id);
  EXPECT_EQ(launch("bob"), his);
}

// The service died between the record of the run and its start, and a keeper has settled it.
TEST_F(LaunchRequestTest, LaunchCompletedLaterIsActive) {
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

TEST_F(LaunchRequestTest, RefusesNamesThatDoNotFitIntoAListing) {
  for (const std::string& name : {std::string("a\nb\x1b[31mX"), std::string(100000, 'x')}) {
    v1::Run run;
    const grpc::Status status = Launch(Spec(name), "", &run);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("name: got "));
  }
  EXPECT_EQ(List().runs_size(), 0);
}

// FindStartingPoint refuses an average, once the run is found.
TEST_F(LaunchRequestTest, FindsARunWhoseAverageIsNamed) {
  const v1::Run first = Launched("quick");
  Watch(first.id(), 0);
  v1::RunSpec spec = Spec("quick");
  spec.set_init_from(first.id() + "@ema");
  v1::Run run;
  EXPECT_THAT(Launch(spec, "", &run).error_message(),
              HasSubstr(first.run_dir() + " holds no checkpoint yet"));
}

// Fake programs of Slurm; sbatch refuses jobs while a file "refuse" exists.
TEST_F(LaunchRequestTest, RunRefusedByItsSchedulerFailsAndCanBeResumed) {
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
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
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

}  // namespace launch_request_test
}  // namespace braid
