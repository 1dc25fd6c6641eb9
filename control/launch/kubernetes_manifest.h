// The MPIJob (kubeflow.org/v2beta1) of a run, as JSON. kubectl accepts JSON like YAML, and the JSON
// library quotes every value, so no text can become structure. Experimental: the manifests are
// checked against a schema, but have not been applied to a cluster.
#ifndef BRAID_CONTROL_LAUNCH_KUBERNETES_MANIFEST_H_
#define BRAID_CONTROL_LAUNCH_KUBERNETES_MANIFEST_H_

#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// The paths of the programs in the image (deploy/Dockerfile).
inline constexpr std::string_view kImageMpirun = "/usr/bin/mpirun";
inline constexpr std::string_view kImageTrainer = "/usr/local/bin/braid-trainer";
inline constexpr std::string_view kImageSupervisor = "/usr/local/bin/braid-supervisor";

struct MpiJobNames {
  // The name of the MPIJob: a DNS label that leaves room for "-worker-<n>".
  std::string job;
  // The values of the labels braid.run and braid.nonce.
  std::string run_id;
  std::string nonce;
};

// Returns the manifest. Requires a resolved `spec` with backend KUBERNETES. The launcher pod runs
// `braid-supervisor RUN_DIR`; the workers run sshd and wait for it. InvalidArgument when the run
// directory or the dataset is not below the mount of the volume claim, or when the names of the
// workers would be too long.
absl::StatusOr<std::string> MpiJobManifest(const v1::RunSpec& spec,
                                           const std::filesystem::path& run_dir,
                                           const MpiJobNames& names);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_KUBERNETES_MANIFEST_H_
