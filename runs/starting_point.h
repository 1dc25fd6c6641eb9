// The checkpoint that a run starts from (RunSpec.init_from), as far as it determines the run's
// configuration. Does not depend on the tensor library.
#ifndef BRAID_RUNS_STARTING_POINT_H_
#define BRAID_RUNS_STARTING_POINT_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

struct StartingPoint {
  std::filesystem::path checkpoint;
  v1::ModelConfig model;  // configuration of the weights
};

// Finds the checkpoint: `init_from` is a checkpoint directory, or a run directory, whose newest
// checkpoint is used. Errors are those of a strict FindModel.
absl::StatusOr<StartingPoint> FindStartingPoint(const std::string& init_from);

// Resolves `asked`, taking the shape of `source` for the fields it leaves unset; one that is
// resolved already stays as it is. A dense source may become an expert model; an expert model keeps
// its number of experts. Sequence and segment length may differ from the source's. InvalidArgument
// names the first field that the weights do not fit.
absl::StatusOr<v1::ModelConfig> ShapeFrom(const v1::ModelConfig& source,
                                          const v1::ModelConfig& asked);

// Returns InvalidArgument when tokens would use the experts of `source` in another way than these
// were trained for: other numbers of active experts, unless the run grows them, or other combine
// weights or another selection, which only fine-tuning may change. `spec.model` is resolved.
absl::Status CheckSameUse(const v1::ModelConfig& source, const v1::RunSpec& spec);

// Returns InvalidArgument when the dataset and the weights have different tokenizers: the same
// token ids would mean other pieces of text.
absl::Status CheckSameTokenizer(const std::filesystem::path& checkpoint,
                                const std::filesystem::path& dataset_dir);

// Sets the model of a spec to the shape of the weights of `start`, as ShapeFrom does, and init_from
// to its checkpoint; experts have no dense warm-up. InvalidArgument as ShapeFrom and CheckSameUse,
// and for a run that trains a part of the parameters and changes between experts and dense FFNs.
absl::Status FillFromStartingPoint(const StartingPoint& start, v1::RunSpec* spec);

// Does the same with the weights that init_from names; nothing without it, and nothing for a
// resolved spec whose weights were deleted, since a resumed run does not need them. Errors: those
// of FindStartingPoint, CheckSameTokenizer and FillFromStartingPoint.
absl::Status FillFromInit(v1::RunSpec* spec);

}  // namespace braid

#endif  // BRAID_RUNS_STARTING_POINT_H_
