// Packed token sequences as input of the model.
#ifndef BRAID_TRAINER_DATA_LOADER_H_
#define BRAID_TRAINER_DATA_LOADER_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/indexed_dataset.h"
#include "formats/packed_dataset.h"

namespace braid {

// B sequences of L positions, row-major [B, L].
struct Batch {
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;  // -1 where no loss is computed
  int64_t batch_size = 0;        // B
  int64_t num_targets = 0;       // number of targets that are not -1
  // Number of positions of each sequence before its padding, [B].
  std::vector<int64_t> lengths;
  // Number of targets of each sequence that are not -1, [B]; equal to `lengths` unless supervised.
  std::vector<int64_t> target_counts;
  // The first position that each position sees, [B, L]; empty outside of supervised datasets.
  std::vector<int32_t> first_visible;
  // Labels of a regression head, [B, L], valid where the target is not -1; empty for other models.
  std::vector<float> numbers = {};

  // Returns the sequences [begin, end) as a batch.
  Batch Slice(int64_t begin, int64_t end) const;
};

// Builds a batch. A sequence of n tokens t gives inputs t[0..n-2] and targets t[1..n-1]; shorter
// sequences are padded to L positions with input `eos` and target -1. Requires n <= L + 1 for all.
Batch MakeBatch(std::span<const std::vector<int32_t>> sequences, int64_t sequence_length,
                int32_t eos);

// Reads and validates the sequences of one indexed dataset.
class DataLoader {
 public:
  // Opens PREFIX.bin and PREFIX.idx, such as DATASET/instances. DataLoss when the files are
  // damaged.
  static absl::StatusOr<DataLoader> Open(const std::filesystem::path& prefix,
                                         const DatasetInfo& info);

  int64_t num_instances() const { return dataset_.num_sequences(); }

  // Loads the given instances. DataLoss, naming file and instance, for a sequence longer than L + 1
  // or a token outside the vocabulary.
  absl::StatusOr<Batch> Load(std::span<const int64_t> instances) const;
  // Returns the number of tokens of an instance.
  int64_t length(int64_t instance) const { return dataset_.sequence_length(instance); }
  int64_t sequence_length() const { return sequence_length_; }
  const IndexedDataset& dataset() const { return dataset_; }
  int32_t eos_id() const { return eos_id_; }

  // The two halves of Load, for batches of several datasets. Require 0 <= instance <
  // num_instances().
  absl::StatusOr<std::vector<int32_t>> Read(int64_t instance) const;
  Batch Assemble(std::span<const std::vector<int32_t>> sequences) const {
    return MakeBatch(sequences, sequence_length_, eos_id_);
  }

 private:
  DataLoader(IndexedDataset dataset, std::filesystem::path prefix, const DatasetInfo& info);

  IndexedDataset dataset_;
  std::filesystem::path prefix_;
  int64_t sequence_length_;
  int32_t vocab_size_;
  int32_t eos_id_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_DATA_LOADER_H_
