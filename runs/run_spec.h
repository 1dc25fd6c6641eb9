// Resolution of a RunSpec as a user writes it: fills in every field for which the proto documents
// a default and checks every value.
#ifndef BRAID_RUNS_RUN_SPEC_H_
#define BRAID_RUNS_RUN_SPEC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "formats/packed_dataset.h"
#include "runs/starting_point.h"

namespace braid {

// Returns the spec with every default filled in. Takes sequence length, vocabulary size and number
// of instances from dataset.json and makes dataset_dir absolute. Resolving a resolved spec changes
// nothing. Errors: INVALID_ARGUMENT, which names the field, what it got and what it expected; those
// of ReadDatasetInfo and FindStartingPoint.
absl::StatusOr<v1::RunSpec> ResolveRunSpec(const v1::RunSpec& spec);

// Returns what ResolveRunSpec will return once `dataset` is stored in dataset_dir and `start` is
// the checkpoint that init_from names, with the same errors. Reads no file. Requires a spec with
// one dataset, which has at least one instance and the tokenizer of `start`.
absl::StatusOr<v1::RunSpec> ResolveRunSpec(const v1::RunSpec& spec, const DatasetInfo& dataset,
                                           const StartingPoint& start);

// Fills in the defaults of the supervision settings and checks them, as ResolveRunSpec does. For
// specs that were stored before a setting existed.
absl::Status FillSupervision(v1::SupervisionConfig* config);

// Sets to 0 each setting that is off and negative: earlier versions wrote -1 where 0 disables
// something now.
void SetNegativesToZero(v1::RunSpec* spec);

// Returns the default of batch.micro_batch_size: a rank's share of the batch, or as many sequences
// as have 16,384 tokens if these are fewer.
int32_t DefaultMicroBatch(int64_t global_batch_size, int64_t world_size, int64_t sequence_length);

// Returns the number of dense warm-up steps of a resolved spec: 0 for a dense model and for one
// whose experts train from the first step.
int64_t DenseSteps(const v1::RunSpec& resolved);

}  // namespace braid

#endif  // BRAID_RUNS_RUN_SPEC_H_
