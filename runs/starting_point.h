// The checkpoint that a run starts from (RunSpec.init_from), as far as it decides
// the run's configuration. No tensor library.
#ifndef BRAID_RUNS_STARTING_POINT_H_
#define BRAID_RUNS_STARTING_POINT_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"

namespace braid {

struct StartingPoint {
  std::filesystem::path checkpoint;
  v1::ModelConfig model;  // of its weights
};

// `init_from` is a checkpoint directory, or a run directory, whose newest good
// checkpoint is taken. NotFound when it is neither.
absl::StatusOr<StartingPoint> FindStartingPoint(const std::string& init_from);

// `asked` resolved, with the shape of `source` for what it leaves unset: a dense
// source may become experts, experts keep their number. Sequence and segment
// length may differ from the source's. InvalidArgument names the first field
// that the weights do not fit.
absl::StatusOr<v1::ModelConfig> ShapeFrom(const v1::ModelConfig& source,
                                          const v1::ModelConfig& asked);

// InvalidArgument when the data was made with another tokenizer than the
// weights: the same numbers would mean other pieces.
absl::Status CheckSameTokenizer(const std::filesystem::path& checkpoint,
                                const std::filesystem::path& dataset_dir);

}  // namespace braid

#endif  // BRAID_RUNS_STARTING_POINT_H_
