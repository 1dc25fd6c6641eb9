// Resolves a model named by a user to a checkpoint: the one place where every command, service and
// run finds the weights that it uses.
#ifndef BRAID_RUNS_MODEL_PATH_H_
#define BRAID_RUNS_MODEL_PATH_H_

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "runs/checkpoint.h"

namespace braid {

struct ModelPath {
  std::filesystem::path checkpoint;
  // The run directory that contains the checkpoint, if there is one.
  std::optional<std::filesystem::path> run;
  // use_average is set where the reference names the average of the weights.
  CheckpointState state;
  // Describes the checkpoint in results, with the reason when it is not the newest of its run.
  v1::ModelSource source;
};

// A reference to a model with "@ema" at its end names the average of its weights.
struct WeightsReference {
  std::string model;  // without "@ema"
  bool average = false;
};
WeightsReference SplitReference(const std::string& reference);

// Finds the model at `path`: a checkpoint directory, or a run directory, whose newest good
// checkpoint is used; followed by "@ema" for the average of its weights, as is source.checkpoint.
//
// FailedPrecondition when the checkpoint has no average.
// FailedPrecondition when `strict` and a newer checkpoint of the run is damaged (CheckNewest).
// NotFound, with what is expected there, when it is neither or holds no checkpoint yet; DataLoss
// when all checkpoints are damaged.
absl::StatusOr<ModelPath> FindModel(const std::filesystem::path& path, bool strict);

// Identifies the files of a checkpoint: "NAME BYTES CRC" of its directory and its manifest, which
// has the digests of the others. Errors: those of SummarizeFile.
absl::StatusOr<std::string> CheckpointKey(const std::filesystem::path& checkpoint);

// Returns FailedPrecondition, with the damage found, unless the checkpoint is the newest of its
// run.
absl::Status CheckNewest(const v1::ModelSource& source);

// Adds what else of the model was damaged, and therefore not used, to source->skipped(). With
// `strict`, FailedPrecondition with the causes instead.
absl::Status AddSkipped(std::span<const std::string> causes, bool strict, v1::ModelSource* source);

// Returns "step 100 was used instead of the newest, step 150: checkpoint ... is damaged: ...", or
// what else of the model was damaged and therefore not used; empty when nothing was.
std::string FallbackNote(const v1::ModelSource& source);

// Returns whether `path` is a run directory.
bool IsRunDirectory(const std::filesystem::path& path);

// Returns whether `path` (without "@ema") looks like a model of FindModel, without reading its
// files.
bool IsModelDirectory(const std::filesystem::path& path);

// Returns the end of an error about `path`, where FindModel finds nothing: the command that imports
// it if it looks like a model of Hugging Face, otherwise "".
std::string ImportHint(const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_RUNS_MODEL_PATH_H_
