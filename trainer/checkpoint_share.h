// One rank's part of a checkpoint: copied from the run in a moment, written to
// its files while the run goes on.
//
//   CheckpointShare share(rank, world_size);
//   share.Copy(source);                        // the run may change its weights now
//   ASSIGN_OR_RETURN(auto files, share.Write(staging, stop));
#ifndef BRAID_TRAINER_CHECKPOINT_SHARE_H_
#define BRAID_TRAINER_CHECKPOINT_SHARE_H_

#include <cstddef>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/manifest.h"
#include "runs/checkpoint.h"

namespace braid {

// What a checkpoint is made of, as one rank sees it. State and weights are the
// same on every rank.
struct CheckpointSource {
  CheckpointState state;
  // All weights, in the order of their elements in `moments`.
  std::vector<CheckpointTensor> weights;
  // Those this rank holds: at least ShardOf(all elements, rank, world size).
  CheckpointMoments moments;
};

// The rank that writes each tensor. Whole tensors, the largest first, each to the
// rank that has the fewest elements so far, the lowest of equals: no rank writes
// more than 4/3 of the least possible maximum (Graham, 1969).
std::vector<int> DivideTensors(std::span<const CheckpointTensor> tensors, int world_size);

// Copy and Write are not called at the same time.
class CheckpointShare {
 public:
  CheckpointShare(int rank, int world_size) : rank_(rank), world_size_(world_size) {}

  // 4 bytes an element of this rank's weights and 8 an element of its moments;
  // the memory is kept for the next time.
  void Copy(const CheckpointSource& source);

  // The files of this rank: weights, then moments. Cancelled, with nothing
  // left but what was complete, soon after `stop` is requested.
  absl::StatusOr<std::vector<ManifestEntry>> Write(const std::filesystem::path& staging,
                                                   const std::stop_token& stop) const;

  // The files that there is one of, for rank 0 to write: index (when there are
  // several ranks), state, configuration and a copy of the file `tokenizer`.
  absl::StatusOr<std::vector<ManifestEntry>> WriteCommon(
      const std::filesystem::path& staging, const std::filesystem::path& tokenizer) const;

  const CheckpointState& state() const { return state_; }

 private:
  // A tensor of the model and its writer; values only of this rank's.
  struct Weight {
    std::string name;
    std::vector<int64_t> shape;
    size_t size = 0;
    int rank = 0;
    std::vector<float> values;
  };

  absl::StatusOr<ManifestEntry> WriteWeights(const std::filesystem::path& staging,
                                             const std::stop_token& stop) const;
  absl::StatusOr<ManifestEntry> WriteMoments(const std::filesystem::path& staging,
                                             const std::stop_token& stop) const;
  void CopyWeights(std::span<const CheckpointTensor> tensors);
  std::string IndexText() const;

  const int rank_;
  const int world_size_;
  CheckpointState state_;
  std::vector<Weight> weights_;
  Shard range_;
  std::string layout_;
  std::vector<float> m_, v_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_CHECKPOINT_SHARE_H_
