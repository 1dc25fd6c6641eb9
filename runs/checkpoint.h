// Checkpoints on disk: weights, AdamW moments and position of a run, enough to continue it bit for
// bit, also on another number of ranks. docs/formats/checkpoint.md describes the files and how they
// are written.
//
//   CHECKPOINTS/step-00000480/
//     model-00001-of-00004.safetensors       weights, whole tensors
//     model.safetensors.index.json           which tensor is in which of them
//     optimizer-00001-of-00004.safetensors   moments of a range of all elements, and their average
//     state.json                             CheckpointState
//     model.textproto                        the ModelConfig of the weights
//     finetuning.textproto                   PartialCheckpoint, where not all weights are trained
//     tokenizer.model
//     manifest.json                          lengths and CRC32C of the above
//
// A run of one rank has model.safetensors and optimizer.safetensors instead, and no index. This
// file reads checkpoints; checkpoint_share writes a rank's files, checkpoint_directory publishes
// and removes checkpoints, and checkpoint_writer does so in the background of a run.
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

// The validations of a run so far.
struct ValidationHistory {
  double best_loss = 0;   // nats per token
  int64_t best_step = 0;  // the step that had it; 0 before the first validation
  int32_t num_worse = 0;  // validations in a row since, none of which was better
};

// What loss spikes are compared with: the steps that were kept, oldest first.
struct SpikeHistory {
  std::vector<double> losses;     // nats per token
  std::vector<double> log_norms;  // logarithm of the gradient norm
  int32_t num_consecutive = 0;    // spikes in a row up to the newest step
};

// The position of a run. There is no random state: initial weights and data order are pure
// functions of the seed.
struct CheckpointState {
  int64_t step = 0;  // steps done
  // Updates of the moments and the average since they were zero: fewer than steps where a spike was
  // skipped.
  int64_t num_updates = 0;
  int64_t dense_updates = 0;  // those before the upcycling
  int64_t num_tokens = 0;     // tokens predicted so far
  bool upcycled = false;      // experts are in use
  // Coefficient of the penalty of the gate RELU in the next step; 0 with other gates.
  double gate_penalty = 0;
  int world_size = 1;  // ranks that wrote it
  std::string dataset_key;
  ValidationHistory validation;
  SpikeHistory spikes;
  v1::ModelConfig model;  // configuration of the weights: the dense one before upcycling
  // Element type that all weights had in the files they were imported from, as safetensors names it
  // ("BF16"). Empty for weights of mixed types and for trained models.
  std::string source_dtype = {};
  // Absent in checkpoints that hold all weights.
  v1::PartialCheckpoint partial = {};
  bool has_average = false;  // holds the average of the trained weights (optimizer.ema_decay)
  // Set by readers, and not stored: ReadWeights gives the average of the weights instead.
  bool use_average = false;
};

// Return the contents of state.json, and of model.textproto and finetuning.textproto.
std::string StateText(const CheckpointState& state);
std::string ConfigText(const google::protobuf::Message& config);

// One weight: the source when writing, the destination when reading.
struct CheckpointTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> value;
};

// AdamW moments of the elements `range` of all weights, concatenated in the order of the tensors. m
// and v have range.size() elements each. File r of a checkpoint by W ranks holds ShardOf(elements,
// r, W).
struct CheckpointMoments {
  Shard range;
  std::span<float> m;
  std::span<float> v;
  std::span<float> average = {};  // average of the weights; empty in runs without one
};

// Return file names inside a checkpoint. Ranks count from 0, names from 1.
std::string ModelFileName(int rank, int world_size);
std::string OptimizerFileName(int rank, int world_size);
// Name of the average in the files of the moments.
inline constexpr char kAverageTensor[] = "average";
inline constexpr char kIndexFile[] = "model.safetensors.index.json";
inline constexpr char kStateFile[] = "state.json";
inline constexpr char kConfigFile[] = "model.textproto";
inline constexpr char kFinetuningFile[] = "finetuning.textproto";
inline constexpr char kTokenizerFile[] = "tokenizer.model";

// Returns a hash of names, shapes and order of the tensors, as eight hexadecimal digits. The
// meaning of a range of moments depends on them.
std::string LayoutFingerprint(std::span<const CheckpointTensor> tensors);

// Returns the metadata of a moments file.
std::map<std::string, std::string> MomentsMetadata(Shard range, const std::string& layout);

// Returns the total number of elements.
size_t NumElements(std::span<const CheckpointTensor> tensors);

// Reads every byte and compares it with the manifest. DataLoss or NotFound names the first bad
// file. With a rank, reads only the manifest's files number rank, rank + world_size, ..., so that
// the ranks of a run share the work.
absl::Status VerifyCheckpoint(const std::filesystem::path& checkpoint, int rank = 0,
                              int world_size = 1);

// Returns `partial` as a checkpoint in `directory` stores it: with the path of its base relative to
// `directory` if the latter is HOME/runs/RUN/checkpoints/NAME and the base is in HOME, so that a
// home can be moved. ReadCheckpointState makes the path absolute again.
v1::PartialCheckpoint StoredPartial(const v1::PartialCheckpoint& partial,
                                    const std::filesystem::path& directory);

// Verifies and reads state.json, model.textproto and finetuning.textproto. DataLoss or NotFound
// names the bad file.
absl::StatusOr<CheckpointState> ReadCheckpointState(const std::filesystem::path& checkpoint);

// Fills the tensors; with state.use_average, those that are trained with their average. DataLoss
// when one is missing or has another shape.
absl::Status ReadWeights(const std::filesystem::path& checkpoint, const CheckpointState& state,
                         std::span<const CheckpointTensor> tensors);

// Fills `wanted` from the files that hold its range; the average only of a checkpoint that has one.
// `tensors` are all weights of the model.
// DataLoss when the files were written for other tensors.
absl::Status ReadMoments(const std::filesystem::path& checkpoint, const CheckpointState& state,
                         std::span<const CheckpointTensor> tensors,
                         const CheckpointMoments& wanted);

}  // namespace braid

#endif  // BRAID_RUNS_CHECKPOINT_H_
