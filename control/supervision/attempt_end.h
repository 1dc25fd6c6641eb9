// Why an attempt ended that said nothing itself, in words.
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

// The line of trainer.log that an attempt begins with.
std::string AttemptMarker(const std::string& nonce);

struct AttemptEnd {
  // At fault, as far as mpirun has named them.
  std::vector<v1::Heartbeat> ranks;
  std::string cause;
  // False when the trainer refused its command line.
  bool retryable = true;
};

// From trainer.log behind the last marker, the last `beats` of the attempt, those that fell silent
// before the others, and mpirun's exit code where it is known.
AttemptEnd DescribeEnd(const RunDirectory& run, const v1::LaunchConfig& launch,
                       std::span<const v1::Heartbeat> beats,
                       std::span<const v1::Heartbeat> silent_first, std::optional<int> exit_code);

// What a run that is given up says: `last`, and the incidents since `restarts` restarts ago.
std::string StoryOf(const google::protobuf::RepeatedPtrField<v1::RunIncident>& earlier,
                    const v1::RunIncident& last, int32_t restarts);

}  // namespace braid

#endif  // BRAID_CONTROL_SUPERVISION_ATTEMPT_END_H_
