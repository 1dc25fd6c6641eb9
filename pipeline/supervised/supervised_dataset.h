// Writes a supervised dataset: a packed dataset (formats/packed_dataset.h) whose spans.npy marks
// examples and targets. docs/formats/dataset.md describes the directory.
//
//   ASSIGN_OR_RETURN(SupervisedPlan plan, PlanSupervised(records, nullptr, *tokenizer, settings));
//   const SupervisedDataset dataset = {"alpaca", plan, records.sources, settings, *tokenizer, ...};
//   const std::string key = SupervisedKey(dataset);
//   ASSIGN_OR_RETURN(StoredStage stored, store.Produce("pack", key, [&](StageWriter& stage) {
//     return WriteSupervised(dataset, key, &stage);
//   }));
#ifndef BRAID_PIPELINE_SUPERVISED_SUPERVISED_DATASET_H_
#define BRAID_PIPELINE_SUPERVISED_SUPERVISED_DATASET_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/packed_dataset.h"
#include "formats/tokenizer.h"
#include "pipeline/store/stage_store.h"
#include "pipeline/supervised/supervised_plan.h"

namespace braid {

// The records that were left out: a JSON object with place, reason and detail per line.
inline constexpr char kSupervisedRejectsName[] = "rejects.jsonl";

// Returns where the provenance of the held-out examples of a domain is
// (pipeline/stages/provenance.h).
std::filesystem::path HeldoutProvenancePath(const std::filesystem::path& dataset_dir,
                                            const std::string& domain);

struct SupervisedDataset {
  std::string name;
  const SupervisedPlan& plan;
  std::span<const RecordSource> sources;
  const SupervisedSettings& settings;
  const Tokenizer& tokenizer;
  std::string_view tokenizer_bytes;  // the file of the tokenizer
};

// Returns the key of the dataset: a hash of everything that determines its bytes.
std::string SupervisedKey(const SupervisedDataset& dataset);

// Returns the contents of dataset.json. `key`: SupervisedKey(dataset), or any text when the
// description is not written.
DatasetInfo DescribeSupervised(const SupervisedDataset& dataset, const std::string& key);

// Writes the dataset to the stage's directory. Errors: those of the writers.
absl::Status WriteSupervised(const SupervisedDataset& dataset, const std::string& key,
                             StageWriter* stage);

// One example of a stored dataset, for people.
struct StoredExample {
  std::string place;  // "FILE:LINE"
  std::vector<int32_t> tokens;
  std::vector<TokenRange> targets;  // ranges in `tokens`
  int32_t begin = 0;                // in its instance
  std::string label = {};           // empty without labels
};

// Returns the examples of an instance of a stored dataset in order. Errors: OUT_OF_RANGE for an
// instance that does not exist; those of ReadSpans, IndexedDataset and Provenance.
absl::StatusOr<std::vector<StoredExample>> ReadStoredExamples(
    const std::filesystem::path& dataset_dir, int64_t instance);

}  // namespace braid

#endif  // BRAID_PIPELINE_SUPERVISED_SUPERVISED_DATASET_H_
