#include "control/launch/kubernetes_manifest.h"

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runs/launch_config.h"

namespace braid {
namespace {

// Keeps keys in the order in which they are set, as is usual in manifests.
using Json = nlohmann::ordered_json;

constexpr size_t kMaxLabelBytes = 63;
// Longer than a stopped run may take to write its checkpoint.
constexpr int kTerminationSeconds = 90;
// The user braid of the image, and its home with the configuration of ssh and sshd.
constexpr int kImageUser = 1000;
constexpr char kSshDirectory[] = "/home/braid/.ssh";
constexpr char kSshdConfig[] = "/home/braid/sshd_config";

absl::Status CheckBelowMount(const std::string& what, const std::string& path,
                             const std::string& mount) {
  RETURN_IF_ERROR(CheckPlainPath(what, path));
  if (absl::StartsWith(path, mount + "/")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": got ", path, ", expected a path below launch.kubernetes.mount_path (",
                   mount, "), which is mounted in all pods"));
}

Json Labels(const MpiJobNames& names) {
  return {{"app.kubernetes.io/name", "braid"},
          {"app.kubernetes.io/component", "run"},
          {"braid.run", names.run_id},
          {"braid.nonce", names.nonce}};
}

// Requests equal limits, so that a pod is not evicted for using what it requested.
Json WorkerResources(const v1::KubernetesConfig& kubernetes) {
  Json amounts = Json::object();
  if (!kubernetes.cpu().empty()) amounts["cpu"] = kubernetes.cpu();
  if (!kubernetes.memory().empty()) amounts["memory"] = kubernetes.memory();
  if (kubernetes.gpus() > 0) amounts["nvidia.com/gpu"] = kubernetes.gpus();
  return {{"requests", amounts}, {"limits", amounts}};
}

Json Container(const std::string& name, const v1::KubernetesConfig& kubernetes,
               const std::vector<std::string>& command, const Json& resources) {
  return {{"name", name},
          {"image", kubernetes.image()},
          {"command", command},
          {"resources", resources},
          {"securityContext",
           {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}},
          {"volumeMounts",
           {{{"name", "data"}, {"mountPath", kubernetes.mount_path()}},
            {{"name", "shared-memory"}, {"mountPath", "/dev/shm"}}}}};
}

Json Replica(int32_t replicas, const v1::KubernetesConfig& kubernetes, const Json& labels,
             const Json& container) {
  const Json volumes = {
      {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", kubernetes.volume_claim()}}}},
      // Ranks of a pod communicate through /dev/shm, which has only 64 MiB by default.
      {{"name", "shared-memory"}, {"emptyDir", {{"medium", "Memory"}}}}};
  // No program in a pod uses the Kubernetes API, so none gets a token for it.
  const Json pod = {{"automountServiceAccountToken", false},
                    {"terminationGracePeriodSeconds", kTerminationSeconds},
                    {"securityContext",
                     {{"runAsNonRoot", true},
                      {"runAsUser", kImageUser},
                      {"runAsGroup", kImageUser},
                      {"fsGroup", kImageUser},
                      {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
                    {"containers", Json::array({container})},
                    {"volumes", volumes}};
  return {{"replicas", replicas},
          {"restartPolicy", "Never"},
          {"template", {{"metadata", {{"labels", labels}}}, {"spec", pod}}}};
}

}  // namespace

absl::StatusOr<std::string> MpiJobManifest(const v1::RunSpec& spec,
                                           const std::filesystem::path& run_dir,
                                           const MpiJobNames& names) {
  const v1::KubernetesConfig& kubernetes = spec.launch().kubernetes();
  RETURN_IF_ERROR(CheckBelowMount("run directory", run_dir.string(), kubernetes.mount_path()));
  RETURN_IF_ERROR(CheckBelowMount("dataset_dir", spec.dataset_dir(), kubernetes.mount_path()));
  for (const v1::MixtureDataset& entry : spec.datasets()) {
    RETURN_IF_ERROR(CheckBelowMount("datasets", entry.dataset(), kubernetes.mount_path()));
  }
  const std::string last_worker = absl::StrCat(names.job, "-worker-", kubernetes.workers() - 1);
  if (last_worker.size() > kMaxLabelBytes) {
    return absl::InvalidArgumentError(absl::StrCat("pod name: got ", last_worker, " (",
                                                   last_worker.size(), " bytes), expected at most ",
                                                   kMaxLabelBytes));
  }
  const Json labels = Labels(names);
  // Ranks run in the workers only; the launcher has the supervisor and mpirun.
  const Json launcher = Container("launcher", kubernetes, {"braid-supervisor", run_dir.string()},
                                  {{"requests", {{"cpu", "100m"}, {"memory", "128Mi"}}}});
  const Json worker = Container("worker", kubernetes, {"/usr/sbin/sshd", "-De", "-f", kSshdConfig},
                                WorkerResources(kubernetes));
  const Json manifest = {
      {"apiVersion", "kubeflow.org/v2beta1"},
      {"kind", "MPIJob"},
      {"metadata",
       {{"name", names.job}, {"namespace", kubernetes.namespace_()}, {"labels", labels}}},
      {"spec",
       {{"slotsPerWorker", spec.world_size() / kubernetes.workers()},
        {"sshAuthMountPath", kSshDirectory},
        {"mpiImplementation", "OpenMPI"},
        // mpirun fails if it cannot reach the sshd of every worker.
        {"launcherCreationPolicy", "WaitForWorkersReady"},
        // The supervisor restarts the ranks; the operator must not restart the supervisor. When the
        // launcher has ended, the operator removes the workers, whose sshd never exits.
        {"runPolicy", {{"cleanPodPolicy", "Running"}, {"backoffLimit", 0}}},
        {"mpiReplicaSpecs",
         {{"Launcher", Replica(1, kubernetes, labels, launcher)},
          {"Worker", Replica(kubernetes.workers(), kubernetes, labels, worker)}}}}}};
  return manifest.dump(2) + "\n";
}

}  // namespace braid
