// The packed dataset directory: the one contract between the pipeline, which writes it, and the
// trainer and the evaluation, which read it. This file owns dataset.json, the description of the
// dataset; docs/formats/dataset.md describes the whole directory.
//
//   DatasetInfo info{.name = "web", .key = key, .order = "SIMILARITY", ...};
//   ASSIGN_OR_RETURN(FileSummary summary, WriteDatasetInfo(directory, info));   // for the manifest
//   ...
//   RETURN_IF_ERROR(VerifyDataset(directory));                                  // reads every file
//   ASSIGN_OR_RETURN(DatasetInfo info, ReadDatasetInfo(directory));
#ifndef BRAID_FORMATS_PACKED_DATASET_H_
#define BRAID_FORMATS_PACKED_DATASET_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"

namespace braid {

inline constexpr char kDatasetInfoName[] = "dataset.json";

// The newest version of dataset.json that this code reads. Version 1 is written without a `version`
// key. Supervised datasets are version 2, so that a reader that would ignore their spans, and train
// on prompts and padding, refuses them, and those with labels version 3.
inline constexpr int64_t kDatasetInfoVersion = 3;

// The content of dataset.json. Requires, for writing, and guarantees, after reading:
//  - the ranges given below; eos_id < vocab_size;
//  - num_instances is num_tokens / (sequence_length + 1), rounded up: all instances but one hold
//    sequence_length + 1 tokens, and none is empty;
//  - a supervised dataset has at least one example, any other none;
//  - domains are distinct names of files: not empty, without '/', neither "." nor "..".
struct DatasetInfo {
  std::string name;                   // the name of the corpus; may be empty
  std::string key;                    // equal keys mean equal bytes; not empty
  std::string order;                  // "SIMILARITY", "RANDOM" or "SOURCE"
  int64_t sequence_length = 0;        // L, 1 to 2^31 - 1
  int32_t vocab_size = 0;             // V, at least 1
  int32_t eos_id = 0;                 // 0 to V - 1
  int64_t num_instances = 0;          // sequences in instances.bin, at least 0
  int64_t num_tokens = 0;             // tokens in instances.bin, EOS included
  int64_t num_documents = 0;          // training documents
  int64_t num_heldout_documents = 0;  // held-out documents
  std::vector<std::string> domains;   // names of the domains in heldout/
  int32_t domain_clusters = 0;  // domains found by k-means clustering; 0: as the records name them
  uint64_t seed = 0;            // for every random choice
  bool begin_with_bos = false;  // every document begins with the tokenizer's BOS token
  int32_t runs_per_instance = 1;  // pack.runs_per_instance, at least 1
  bool supervised = false;        // spans.npy has the targets (formats/supervised_spans.h)
  int64_t num_examples = 0;       // examples of a supervised dataset; 0 without `supervised`
  // Supervised datasets with labels (labels.npy): the names of the classes, or none for numbers.
  std::vector<std::string> classes = {};
  bool regression = false;

  bool labeled() const { return regression || !classes.empty(); }

  friend bool operator==(const DatasetInfo&, const DatasetInfo&) = default;
};

// Writes DATASET_DIR/dataset.json atomically: indented, keys sorted, so that equal values give
// equal bytes. Returns what a manifest records about the file. Errors: INVALID_ARGUMENT, which
// names the file, the field, what it got and what it expected; those of AtomicFile.
absl::StatusOr<FileSummary> WriteDatasetInfo(const std::filesystem::path& dataset_dir,
                                             const DatasetInfo& info);

// Reads and validates DATASET_DIR/dataset.json. Unknown keys are ignored; `domain_clusters`,
// `begin_with_bos`, `runs_per_instance`, `supervised`, `num_examples`, `classes` and `regression`,
// which some datasets lack, have defaults; every other field is required. Errors: NOT_FOUND when
// `dataset_dir` has no dataset.json; DATA_LOSS when the file is not a JSON object;
// INVALID_ARGUMENT, which names the file, the field, what it got and what it expected; those of
// ReadFile.
absl::StatusOr<DatasetInfo> ReadDatasetInfo(const std::filesystem::path& dataset_dir);

// Reads every file of a packed dataset once and compares it with the manifest: lengths, CRC32Cs,
// kind and key. Errors: NOT_FOUND when the directory has no manifest; DATA_LOSS, which names the
// file, when one is missing, damaged, truncated, swapped or part of another dataset; those of
// ReadDatasetInfo.
absl::Status VerifyDataset(const std::filesystem::path& dataset_dir);

}  // namespace braid

#endif  // BRAID_FORMATS_PACKED_DATASET_H_
