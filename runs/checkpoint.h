// Checkpoints on disk: weights, AdamW moments and position of a run, enough to
// continue it bit for bit, on another number of ranks too.
// docs/formats/checkpoint.md describes the files and how they come to be.
//
//   CHECKPOINTS/step-00000480/
//     model-00001-of-00004.safetensors       weights, whole tensors
//     model.safetensors.index.json           which tensor is in which of them
//     optimizer-00001-of-00004.safetensors   moments of a range of all elements
//     state.json                             CheckpointState
//     model.textproto                        the ModelConfig of the weights
//     tokenizer.model
//     manifest.json                          lengths and CRC32C of the above
//
// A run of one rank has model.safetensors and optimizer.safetensors instead, and
// no index. This file reads; checkpoint_share writes a rank's files,
// checkpoint_directory publishes and removes, checkpoint_writer does it in the
// background of a run.
#ifndef BRAID_RUNS_CHECKPOINT_H_
#define BRAID_RUNS_CHECKPOINT_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "model/config/shard.h"

namespace braid {

inline constexpr char kCheckpointKind[] = "checkpoint";

// Where the run stands. There is no random state: initial weights and data order
// are pure functions of the seed.
struct CheckpointState {
  int64_t step = 0;        // optimiser steps done
  int64_t num_tokens = 0;  // tokens predicted so far
  bool upcycled = false;   // experts are in use
  int world_size = 1;      // ranks that wrote it
  std::string dataset_key;
  v1::ModelConfig model;  // of the weights: the dense one before upcycling
};

// One weight. When writing, read from; when reading, filled.
struct CheckpointTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> value;
};

// AdamW's moments of the elements `range` of all weights, which lie one after
// another in the order of the tensors. m and v have range.size() elements. File r
// of a checkpoint by W ranks holds ShardOf(number of elements, r, W).
struct CheckpointMoments {
  Shard range;
  std::span<float> m;
  std::span<float> v;
};

// File names inside a checkpoint. Ranks count from 0, names from 1.
std::string ModelFileName(int rank, int world_size);
std::string OptimizerFileName(int rank, int world_size);
inline constexpr char kIndexFile[] = "model.safetensors.index.json";
inline constexpr char kStateFile[] = "state.json";
inline constexpr char kConfigFile[] = "model.textproto";
inline constexpr char kTokenizerFile[] = "tokenizer.model";

// Names, shapes and order of the tensors in eight hexadecimal digits: what a
// range of moments means depends on them.
std::string LayoutFingerprint(std::span<const CheckpointTensor> tensors);

// The metadata of a file of moments.
std::map<std::string, std::string> MomentsMetadata(Shard range, const std::string& layout);

size_t NumElements(std::span<const CheckpointTensor> tensors);

// Reads every byte against the manifest. DataLoss or NotFound names the first
// bad file. With a rank, only files number rank, rank + world_size, ... of the
// manifest: the ranks of a run share the work.
absl::Status VerifyCheckpoint(const std::filesystem::path& checkpoint, int rank = 0,
                              int world_size = 1);

absl::StatusOr<CheckpointState> ReadCheckpointState(const std::filesystem::path& checkpoint);

// Fills the tensors. DataLoss when one is missing or has another shape.
absl::Status ReadWeights(const std::filesystem::path& checkpoint, const CheckpointState& state,
                         std::span<const CheckpointTensor> tensors);

// Fills `wanted` from whichever files hold its range. `tensors` are all weights of the
// model. DataLoss when the files were written for other tensors.
absl::Status ReadMoments(const std::filesystem::path& checkpoint, const CheckpointState& state,
                         std::span<const CheckpointTensor> tensors,
                         const CheckpointMoments& wanted);

}  // namespace braid

#endif  // BRAID_RUNS_CHECKPOINT_H_
