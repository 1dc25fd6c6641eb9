// One rank's part of a checkpoint: copied from the training state in memory, then written to its
// files while training continues.
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

// The content of a checkpoint as seen by one rank. State and weights are the same on every rank.
struct CheckpointSource {
  CheckpointState state;
  // All trained weights, in the order of their elements in `moments`.
  std::vector<CheckpointTensor> weights;
  // Weights to store that have no moments.
  std::vector<CheckpointTensor> constants = {};
  // The moments this rank holds: at least ShardOf(all elements, rank, world size).
  CheckpointMoments moments;
};

// Returns the rank that writes each tensor. Whole tensors are assigned in order of decreasing size
// to the rank with the fewest elements so far (the lowest of equals), so no rank writes more than
// 4/3 of the least possible maximum (Graham, 1969).
std::vector<int> DivideTensors(std::span<const CheckpointTensor> tensors, int world_size);

// Not thread-safe: Copy and Write must not run at the same time.
class CheckpointShare {
 public:
  CheckpointShare(int rank, int world_size) : rank_(rank), world_size_(world_size) {}

  // Copies this rank's part. Uses 4 bytes per element of its weights and 8 (12 with an average) per
  // element of its moments; the memory is reused by the next call.
  void Copy(const CheckpointSource& source);

  // Writes the files of this rank, weights and moments, and returns their manifest entries. Returns
  // Cancelled soon after `stop` is requested; only complete files remain.
  absl::StatusOr<std::vector<ManifestEntry>> Write(const std::filesystem::path& staging,
                                                   const std::stop_token& stop) const;

  // Writes the files that exist once per checkpoint, called by rank 0: the index (when there are
  // several ranks), state, configuration and a copy of the file `tokenizer`.
  absl::StatusOr<std::vector<ManifestEntry>> WriteCommon(
      const std::filesystem::path& staging, const std::filesystem::path& tokenizer) const;

  const CheckpointState& state() const { return state_; }

 private:
  // A tensor of the model and the rank that writes it; `values` is filled for this rank's tensors
  // only.
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
  std::vector<float> m_, v_, average_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_CHECKPOINT_SHARE_H_
