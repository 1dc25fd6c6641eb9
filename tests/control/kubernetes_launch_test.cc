// Runs as MPIJobs, with a fake kubectl that records its calls and keeps one job in a file.
#include <gmock/gmock.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "control/launch/launcher.h"
#include "control/launch/scheduled_run.h"
#include "control/run_store.h"
#include "runs/process_identity.h"
#include "runs/run_spec.h"
#include "runs/stop_request.h"
#include "tests/base/scratch_directory.h"
#include "tests/control/control_fixture.h"

namespace braid {
namespace kubernetes_launch_test {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class KubernetesLaunchTest : public ControlFixture {
 protected:
  KubernetesLaunchTest() : path_(getenv("PATH")) {
    const std::string root = root_.string();
    Write(
        root_ / "bin/kubectl",
        "#!/bin/sh\nfor a in \"$@\"; do printf '%s|' \"$a\"; done >> " + root + "/calls\necho >> " +
            root + "/calls\njob=" + root + "/job\ncase $1$3 in\n" +
            "get--selector=*) echo '{\"kind\":\"List\",\"items\":['; cat $job 2>/dev/null; " +
            "echo ']}' ;;\nget*) cat $job 2>/dev/null; exit 0 ;;\n" + "apply*) [ ! -e " + root +
            "/refuse ] || { echo forbidden >&2; exit 1; }\n  cat \"${2#--filename=}\" > $job ;;\n" +
            "delete*) rm -f $job ;;\nesac\n");
    std::filesystem::permissions(root_ / "bin/kubectl", std::filesystem::perms::owner_all);
    setenv("PATH", (root + "/bin:" + path_).c_str(), 1);
  }
  ~KubernetesLaunchTest() override { setenv("PATH", path_.c_str(), 1); }

  RunDirectory NewRun() {
    v1::RunSpec spec = Spec("quick");
    spec.set_world_size(4);
    v1::KubernetesConfig& kubernetes = *spec.mutable_launch()->mutable_kubernetes();
    spec.mutable_launch()->set_backend(v1::KUBERNETES);
    kubernetes.set_namespace_("training");
    kubernetes.set_image("lab/braid:1");
    kubernetes.set_volume_claim("data");
    kubernetes.set_mount_path(root_.string());
    kubernetes.set_workers(2);
    const RunDirectory run(root_ / "home/runs/run-000001");
    const absl::StatusOr<v1::RunSpec> resolved = ResolveRunSpec(spec);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_TRUE(run.WriteSpec(*resolved).ok());
    return run;
  }
  // The arguments of each call since the last time, joined.
  std::vector<std::string> Calls() {
    const std::vector<std::string> calls =
        absl::StrSplit(GetFile(root_ / "calls"), '\n', absl::SkipEmpty());
    std::filesystem::remove(root_ / "calls");
    return calls;
  }

  const std::string path_;
};

TEST_F(KubernetesLaunchTest, AppliesQueriesAndDeletesByName) {
  const RunDirectory run = NewRun();
  const absl::Status started = StartRun(ProgramsOf(Options()), run);
  ASSERT_TRUE(started.ok()) << started;
  const std::string file = (run.root() / "launch.mpijob.json").string();
  EXPECT_THAT(Calls(), ElementsAre("apply|--filename=" + file + "|"));
  const std::string name = SchedulerJobOf(run);
  EXPECT_THAT(name, StartsWith("braid-run-000001-"));
  EXPECT_EQ(nlohmann::json::parse(GetFile(file))["metadata"]["name"], name);
  const nlohmann::json launch = nlohmann::json::parse(GetFile(run.launch()));
  EXPECT_EQ(launch["arguments"][0], "/usr/bin/mpirun");
  EXPECT_THAT(launch["arguments"].dump(), HasSubstr("/usr/local/bin/braid-trainer"));

  ASSERT_TRUE(
      Eventually([&] { return LookAtScheduledRun(run)->message.ends_with(" waits: Created"); }));
  EXPECT_EQ(LookAtScheduledRun(run)->state, v1::RUN_QUEUED) << "from memory";
  const std::string place = "|--namespace=training|";
  EXPECT_THAT(Calls(), Each("get|mpijobs.kubeflow.org|--selector=app.kubernetes.io/name=braid,app."
                            "kubernetes.io/component=run|--output=json" +
                            place));
  EXPECT_TRUE(CancelQueuedRun(run).value());
  EXPECT_THAT(Calls(), Contains("delete|mpijobs.kubeflow.org|" + name +
                                "|--ignore-not-found|--wait=false" + place));
  EXPECT_TRUE(Eventually([&] { return LookAtScheduledRun(run)->state == v1::RUN_STOPPED; }));
}

TEST_F(KubernetesLaunchTest, UnknownOutcomeIsLookedUpBeforeApplyingAgain) {
  const RunDirectory run = NewRun();
  Write(root_ / "refuse", "");
  const absl::Status refused = StartRun(ProgramsOf(Options()), run);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("forbidden"));
  EXPECT_FALSE(WasStarted(run));
  const std::string name = ReadSchedulerRecord(run)->job_name;
  Calls();
  // It was applied after all.
  Write(root_ / "job", R"({"kind":"MPIJob"})");
  ASSERT_TRUE(StartRun(ProgramsOf(Options()), run).ok());
  EXPECT_EQ(SchedulerJobOf(run), name);
  EXPECT_THAT(Calls(), ElementsAre(StartsWith("get|")));
}

TEST_F(KubernetesLaunchTest, JobThatOutlivesItsStopIsDeletedOnce) {
  const auto store = RunStore::Open(root_ / "home").value();
  const std::string id = store->Create("", "spec", UnixTime())->id;
  const RunDirectory run = NewRun();
  ASSERT_TRUE(StartRun(ProgramsOf(Options()), run).ok());
  // Its supervisor began in a pod, and has been silent since it was asked to stop.
  ProcessRecord supervisor{
      .identity = IdentifyProcess(getpid()).value(), .nonce = "n", .launched_at = UnixTime()};
  supervisor.identity.boot_id = "another machine";
  ASSERT_TRUE(WriteProcessRecord(run.process(), supervisor).ok());
  v1::Heartbeat beat;
  beat.set_time(UnixTime());
  ASSERT_TRUE(run.WriteHeartbeat(beat).ok());
  Calls();
  ASSERT_TRUE(EndOverdueJob(run, UnixTime()).ok());
  const double stopped_at = UnixTime() - 1000;
  ASSERT_TRUE(RecordStopRequest(run, stopped_at).ok());
  ASSERT_TRUE(EndOverdueJob(run, stopped_at + kStopGraceSeconds + kKillGraceSeconds).ok());
  EXPECT_THAT(Calls(), ElementsAre()) << "the grace period of its supervisor is not over";

  const auto service = MakeTrainingService(Options()).value();
  EXPECT_TRUE(Eventually([&] { return !store->Get(id)->active; })) << "it has ended";
  int deletions = 0;
  for (const std::string& call : Calls()) deletions += absl::StartsWith(call, "delete|") ? 1 : 0;
  EXPECT_EQ(deletions, 1);
  EXPECT_EQ(LookAtScheduledRun(run)->state, v1::RUN_STOPPED);
}

TEST_F(KubernetesLaunchTest, HomeOutsideTheMountIsRefusedBeforeAnythingIsWritten) {
  v1::RunSpec spec = *NewRun().ReadSpec();
  spec.mutable_launch()->mutable_kubernetes()->set_mount_path("/elsewhere");
  EXPECT_TRUE(absl::IsInvalidArgument(CheckLaunch(ProgramsOf(Options()), root_ / "home", spec)));
  EXPECT_THAT(Calls(), ElementsAre());
}

}  // namespace kubernetes_launch_test
}  // namespace braid
