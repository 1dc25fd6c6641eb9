#include "trainer/data_loader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace braid {

Batch Batch::Slice(int64_t begin, int64_t end) const {
  BRAID_CHECK(0 <= begin && begin <= end && end <= batch_size) << begin << " " << end;
  const int64_t length = batch_size == 0 ? 0 : static_cast<int64_t>(inputs.size()) / batch_size;
  Batch slice;
  slice.inputs.assign(inputs.begin() + begin * length, inputs.begin() + end * length);
  slice.targets.assign(targets.begin() + begin * length, targets.begin() + end * length);
  slice.lengths.assign(lengths.begin() + begin, lengths.begin() + end);
  slice.target_counts.assign(target_counts.begin() + begin, target_counts.begin() + end);
  if (!first_visible.empty()) {
    slice.first_visible.assign(first_visible.begin() + begin * length,
                               first_visible.begin() + end * length);
  }
  if (!numbers.empty()) {
    slice.numbers.assign(numbers.begin() + begin * length, numbers.begin() + end * length);
  }
  slice.batch_size = end - begin;
  for (int64_t targets_here : slice.target_counts) slice.num_targets += targets_here;
  return slice;
}

Batch MakeBatch(std::span<const std::vector<int32_t>> sequences, int64_t sequence_length,
                int32_t eos) {
  Batch batch;
  batch.batch_size = static_cast<int64_t>(sequences.size());
  batch.inputs.assign(sequences.size() * sequence_length, eos);
  batch.targets.assign(sequences.size() * sequence_length, -1);
  for (size_t b = 0; b < sequences.size(); ++b) {
    const std::vector<int32_t>& tokens = sequences[b];
    const int64_t length = std::max<int64_t>(static_cast<int64_t>(tokens.size()) - 1, 0);
    BRAID_CHECK(length <= sequence_length) << length << " > " << sequence_length;
    std::copy_n(tokens.begin(), length, batch.inputs.begin() + b * sequence_length);
    // An empty sequence has no token to skip: begin() + 1 would be beyond its end.
    std::copy_n(tokens.begin() + (length > 0 ? 1 : 0), length,
                batch.targets.begin() + b * sequence_length);
    batch.lengths.push_back(length);
    batch.target_counts.push_back(length);
    batch.num_targets += length;
  }
  return batch;
}

DataLoader::DataLoader(IndexedDataset dataset, std::filesystem::path prefix,
                       const DatasetInfo& info)
    : dataset_(std::move(dataset)),
      prefix_(std::move(prefix)),
      sequence_length_(info.sequence_length),
      vocab_size_(info.vocab_size),
      eos_id_(info.eos_id) {}

absl::StatusOr<DataLoader> DataLoader::Open(const std::filesystem::path& prefix,
                                            const DatasetInfo& info) {
  ASSIGN_OR_RETURN(IndexedDataset dataset, IndexedDataset::Open(prefix));
  return DataLoader(std::move(dataset), prefix, info);
}

absl::StatusOr<std::vector<int32_t>> DataLoader::Read(int64_t instance) const {
  BRAID_CHECK(0 <= instance && instance < num_instances()) << instance;
  const int64_t length = dataset_.sequence_length(instance);
  if (length > sequence_length_ + 1) {
    return absl::DataLossError(
        absl::StrCat(prefix_.string(), ".bin: instance ", instance, " has ", length,
                     " tokens, expected at most sequence_length + 1 = ", sequence_length_ + 1));
  }
  std::vector<int32_t> tokens = dataset_.Read(instance);
  for (int32_t token : tokens) {
    if (token < 0 || token >= vocab_size_) {
      return absl::DataLossError(absl::StrCat(prefix_.string(), ".bin: instance ", instance,
                                              " holds token ", token,
                                              ", expected less than vocab_size ", vocab_size_));
    }
  }
  return tokens;
}

absl::StatusOr<Batch> DataLoader::Load(std::span<const int64_t> instances) const {
  std::vector<std::vector<int32_t>> sequences;
  for (int64_t instance : instances) {
    ASSIGN_OR_RETURN(sequences.emplace_back(), Read(instance));
  }
  return Assemble(sequences);
}

}  // namespace braid
