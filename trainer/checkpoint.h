// Checkpoints on disk: weights, AdamW moments and position of a run, enough to
// continue it bit for bit. docs/formats/checkpoint.md describes the files.
//
//   CHECKPOINTS/step-00000480/
//     model.safetensors      weights
//     optimizer.safetensors  moments: m.NAME and v.NAME of every weight NAME
//     state.json             CheckpointState
//     model.textproto        the ModelConfig of the weights
//     tokenizer.model
//     manifest.json          lengths and CRC32C of the above; written last
#ifndef BRAID_TRAINER_CHECKPOINT_H_
#define BRAID_TRAINER_CHECKPOINT_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"

namespace braid {

inline constexpr char kCheckpointKind[] = "checkpoint";

// Where the run stands. There is no random state: initial weights and data order
// are pure functions of the seed.
struct CheckpointState {
  int64_t step = 0;        // optimiser steps done
  int64_t num_tokens = 0;  // tokens predicted so far
  bool upcycled = false;   // experts are in use
  std::string dataset_key;
  v1::ModelConfig model;  // of the weights: the dense one before upcycling
};

// One weight and its moments. When writing, read from; when reading, filled.
struct CheckpointTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> value;
  std::span<float> m;
  std::span<float> v;
};

// CHECKPOINTS/step-%08d.
std::filesystem::path CheckpointPath(const std::filesystem::path& checkpoints, int64_t step);

// Writes the checkpoint aside, in a directory ending in .tmp, and publishes it by
// rename; a damaged one of the same step is replaced. Nothing is left of a failed
// attempt. `tokenizer` is a file to copy.
absl::Status WriteCheckpoint(const std::filesystem::path& checkpoints, const CheckpointState& state,
                             std::span<const CheckpointTensor> tensors,
                             const std::filesystem::path& tokenizer);

// Reads every byte against the manifest. DataLoss names the first bad file.
absl::Status VerifyCheckpoint(const std::filesystem::path& checkpoint);

absl::StatusOr<CheckpointState> ReadCheckpointState(const std::filesystem::path& checkpoint);

enum class Moments { kRead, kSkip };

// Fills the tensors. DataLoss when one is missing or has another shape. With
// kSkip only values are filled.
absl::Status ReadCheckpointTensors(const std::filesystem::path& checkpoint, Moments moments,
                                   std::span<const CheckpointTensor> tensors);

// The newest checkpoint that verifies. Each damaged one met on the way is named
// in a line on `warnings`. nullopt when there is none at all; DataLoss when
// there are some and none is good.
absl::StatusOr<std::optional<std::filesystem::path>> NewestGoodCheckpoint(
    const std::filesystem::path& checkpoints, std::ostream& warnings);

// After writing the one of `step`: removes all but the newest `keep_last`, those
// of later steps (damaged ones that were passed over when the run resumed), and
// what killed writers left behind.
absl::Status RotateCheckpoints(const std::filesystem::path& checkpoints, int64_t step,
                               int keep_last);

}  // namespace braid

#endif  // BRAID_TRAINER_CHECKPOINT_H_
