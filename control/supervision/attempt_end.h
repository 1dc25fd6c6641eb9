// Describes the end of an attempt that wrote no exit.json, for people who read the incident.
#ifndef BRAID_CONTROL_SUPERVISION_ATTEMPT_END_H_
#define BRAID_CONTROL_SUPERVISION_ATTEMPT_END_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/training.pb.h"
#include "runs/run_directory.h"

namespace braid {

// Returns the line that separates the output of this attempt in trainer.log from earlier ones.
std::string AttemptMarker(const std::string& nonce);

// Returns false when the exit code of mpirun says that the trainer refused its arguments or did not
// find its run: another attempt would end in the same way. Absent when the code is not known.
bool MayRetryAfter(std::optional<int> exit_code);

struct AttemptEnd {
  // The ranks at fault, as far as mpirun or the heartbeats name them.
  std::vector<v1::Heartbeat> ranks;
  std::string cause;
};

// Describes the end from what trainer.log says after the last marker, the last heartbeats of the
// attempt (`beats`), the ranks that fell silent before the others, and mpirun's exit code where it
// is known.
AttemptEnd DescribeEnd(const RunDirectory& run, const v1::LaunchConfig& launch,
                       std::span<const v1::Heartbeat> beats,
                       std::span<const v1::Heartbeat> silent_first, std::optional<int> exit_code);

// Returns the error of a run that is given up: the cause of `last`, and the causes of the
// `restarts` failures that preceded it.
std::string DescribeFailures(const google::protobuf::RepeatedPtrField<v1::RunIncident>& earlier,
                             const v1::RunIncident& last, int32_t restarts);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_ATTEMPT_END_H_
