#include "control/launch/kubernetes_manifest.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "control/launch/kubernetes_jobs.h"
#include "control/supervision/subprocess.h"
#include "tests/base/scratch_directory.h"

namespace braid {
namespace kubernetes_manifest_test {

using nlohmann::json;
using testing::ElementsAre;

constexpr char kRunDir[] = "/data/home/runs/run-000001";
const MpiJobNames kNames{"braid-run-000001-0a1b2c3d", "run-000001", "0a1b2c3d"};

v1::RunSpec Spec() {
  v1::RunSpec spec;
  spec.set_world_size(4);
  spec.set_threads_per_rank(8);
  spec.set_dataset_dir("/data/home/jobs/job-000001/dataset");
  spec.mutable_launch()->set_backend(v1::KUBERNETES);
  v1::KubernetesConfig& kubernetes = *spec.mutable_launch()->mutable_kubernetes();
  kubernetes.set_namespace_("training");
  kubernetes.set_image("registry.example:5000/lab/braid:0.1.0");
  kubernetes.set_volume_claim("braid-data");
  kubernetes.set_mount_path("/data");
  kubernetes.set_workers(2);
  kubernetes.set_cpu("16");
  kubernetes.set_memory("64Gi");
  kubernetes.set_gpus(2);
  return spec;
}

json Manifest(const v1::RunSpec& spec) {
  return json::parse(*MpiJobManifest(spec, kRunDir, kNames));
}

// Returns the exit code of the schema's check: 2 if it refuses a manifest, 77 where
// python3-jsonschema is missing; -1 if the check cannot be run.
int CheckAgainstSchema(const std::vector<std::string>& manifests) {
  const ScratchDirectory scratch;
  std::vector<std::string> arguments = {BRAID_PYTHON, BRAID_TESTS_DIR "/control/mpijob_schema.py"};
  for (size_t i = 0; i < manifests.size(); ++i) {
    arguments.push_back(scratch / absl::StrCat(i, ".json"));
    PutFile(arguments.back(), manifests[i]);
  }
  const auto print = [](std::string_view line) { return std::cout << line << std::endl, true; };
  const auto result = RunSubprocess({.arguments = arguments, .environment = TrainerEnvironment()},
                                    print, [] { return false; });
  if (!result.ok() || result->exit_code != 0) std::cout << result->error_output;
  return result.ok() ? result->exit_code : -1;
}

TEST(MpiJobManifestTest, MatchesTheGoldenFile) {
  EXPECT_EQ(*MpiJobManifest(Spec(), kRunDir, kNames),
            GetFile(BRAID_TESTS_DIR "/control/mpijob_golden.json"));
}

TEST(MpiJobManifestTest, FollowsTheSchemaOfMpiJobs) {
  std::vector<std::string> manifests = {*MpiJobManifest(Spec(), kRunDir, kNames)};
  v1::RunSpec plain = Spec();
  for (auto clear : {&v1::KubernetesConfig::clear_cpu, &v1::KubernetesConfig::clear_memory,
                     &v1::KubernetesConfig::clear_gpus}) {
    (plain.mutable_launch()->mutable_kubernetes()->*clear)();
    manifests.push_back(*MpiJobManifest(plain, kRunDir, kNames));
  }
  const int code = CheckAgainstSchema(manifests);
  if (code == 77) GTEST_SKIP() << "python3-jsonschema is not installed";
  EXPECT_EQ(code, 0);
}

// Guards against a schema that accepts everything.
TEST(MpiJobManifestTest, TheSchemaRefusesWhatTheOperatorWould) {
  const json good = Manifest(Spec());
  std::vector<json> bad(7, good);
  bad[0]["spec"]["mpiReplicaSpecs"].erase("Launcher");
  bad[1]["spec"]["mpiReplicaSpecs"]["Launcher"]["replicas"] = 2;
  bad[2]["spec"]["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = "Always";
  bad[3]["spec"]["slotsPerWorkers"] = 2;
  bad[4]["spec"]["runPolicy"]["cleanPodPolicy"] = "Sometimes";
  bad[5]["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"] = json::array();
  bad[6]["metadata"]["name"] = "Braid_Run";
  for (const json& manifest : bad) {
    const int code = CheckAgainstSchema({manifest.dump()});
    if (code == 77) GTEST_SKIP() << "python3-jsonschema is not installed";
    EXPECT_EQ(code, 2) << manifest.dump(1);
  }
}

TEST(MpiJobManifestTest, TheLauncherIsTheSupervisor) {
  const json spec = Manifest(Spec())["spec"];
  const json launcher = spec["mpiReplicaSpecs"]["Launcher"];
  EXPECT_THAT(launcher["template"]["spec"]["containers"][0]["command"],
              ElementsAre("braid-supervisor", kRunDir));
  EXPECT_EQ(spec["slotsPerWorker"], 2);
  EXPECT_EQ(spec["mpiReplicaSpecs"]["Worker"]["replicas"], 2);
  EXPECT_EQ(spec["runPolicy"]["cleanPodPolicy"], "Running");
  EXPECT_EQ(launcher["restartPolicy"], "Never");
}

TEST(MpiJobManifestTest, EverythingIsBelowTheMount) {
  for (const char* outside :
       {"/home/runs/run-000001", "/data", "/database/x", "/data/../x", "data/x", "/data/a b"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(MpiJobManifest(Spec(), outside, kNames).status()))
        << outside;
    v1::RunSpec spec = Spec();
    spec.set_dataset_dir(outside);
    EXPECT_TRUE(absl::IsInvalidArgument(MpiJobManifest(spec, kRunDir, kNames).status())) << outside;
  }
}

TEST(MpiJobManifestTest, NamesOfWorkersFitALabel) {
  MpiJobNames names = kNames;
  names.job = std::string(54, 'a');
  EXPECT_TRUE(MpiJobManifest(Spec(), kRunDir, names).ok());
  names.job += 'a';
  EXPECT_TRUE(absl::IsInvalidArgument(MpiJobManifest(Spec(), kRunDir, names).status()));
}

TEST(MpiJobStatusTest, TheNewestTrueConditionDecides) {
  const auto status = [](const std::string& conditions) {
    return ReadMpiJobStatuses(R"({"items":[{"metadata":{"name":"a"},"status":{"conditions":[)" +
                              conditions + "]}}]}")
        ->at("a");
  };
  const std::string created =
      R"({"type":"Created","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"})";
  const std::string running = R"({"type":"Running","status":"True","reason":"MPIJobRunning",)"
                              R"("lastTransitionTime":"2026-01-01T00:00:09Z"})";
  const std::string not_running =
      R"({"type":"Running","status":"False","lastTransitionTime":"2026-01-01T00:01:00Z"})";
  const std::string failed =
      R"({"type":"Failed","status":"True","lastTransitionTime":"2026-01-01T00:01:00Z"})";
  EXPECT_EQ(status("").phase, JobPhase::kQueued);
  EXPECT_EQ(status(created).phase, JobPhase::kQueued);
  EXPECT_EQ(status(created + "," + running).phase, JobPhase::kStarted);
  EXPECT_EQ(status(running + "," + created).description, "Running (MPIJobRunning)");
  EXPECT_EQ(status(created + "," + not_running + "," + failed).phase, JobPhase::kEnded);
  for (const char* bad : {"", "{}", "[]", "null", R"({"items":{}})"}) {
    EXPECT_TRUE(absl::IsUnavailable(ReadMpiJobStatuses(bad).status())) << bad;
  }
}

}  // namespace kubernetes_manifest_test
}  // namespace braid
