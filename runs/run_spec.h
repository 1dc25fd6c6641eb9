// A RunSpec as a person writes it, made complete: every field that the proto
// gives a default for is filled in, every value is checked.
#ifndef BRAID_RUNS_RUN_SPEC_H_
#define BRAID_RUNS_RUN_SPEC_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// dataset.json of a packed dataset.
struct DatasetInfo {
  int64_t sequence_length = 0;  // L
  int32_t vocab_size = 0;       // V
  int32_t eos_id = 0;
  int64_t num_instances = 0;
  int64_t num_tokens = 0;
  std::vector<std::string> domains;  // of the held-out split
  std::string order;                 // "SIMILARITY", "RANDOM" or "SOURCE"
  std::string name;
  std::string key;  // identifies the bytes
};

// NotFound when `dataset_dir` is not a packed dataset; InvalidArgument, naming
// the field, when dataset.json does not hold what it must.
absl::StatusOr<DatasetInfo> ReadDatasetInfo(const std::filesystem::path& dataset_dir);

// Reads all files of a packed dataset once and compares them with its manifest: lengths, CRC32Cs,
// kind and key. NotFound when it has no manifest; DataLoss names the file that is not as the
// corpus job left it, such as one damaged, cut short, swapped, or of another dataset.
absl::Status VerifyDataset(const std::filesystem::path& dataset_dir);

// Reads dataset.json for the sequence length, vocabulary and number of instances;
// makes dataset_dir absolute. Resolving a resolved spec changes nothing.
// InvalidArgument names the field, what it got and what it must be.
absl::StatusOr<v1::RunSpec> ResolveRunSpec(const v1::RunSpec& spec);

// Fills the defaults in and checks, as ResolveRunSpec does: for specs of before.
absl::Status FillSupervision(v1::SupervisionConfig* config);

// Steps of the dense warm-up of a resolved spec: 0 for a dense model, or when
// the experts train from the first step.
int64_t DenseSteps(const v1::RunSpec& resolved);

}  // namespace braid

#endif  // BRAID_RUNS_RUN_SPEC_H_
