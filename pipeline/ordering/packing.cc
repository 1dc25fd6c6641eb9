#include "pipeline/ordering/packing.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "pipeline/ordering/random_permutation.h"

namespace braid {

Packer::Packer(int32_t sequence_length, int32_t eos_id, Sink sink)
    : instance_tokens_(static_cast<size_t>(sequence_length) + 1),
      eos_id_(eos_id),
      sink_(std::move(sink)) {
  BRAID_CHECK(sequence_length >= 1) << sequence_length;
  tokens_.reserve(instance_tokens_);
}

absl::Status Packer::Add(uint32_t document, std::span<const int32_t> tokens) {
  RETURN_IF_ERROR(Append(document, 0, tokens));
  return Append(document, static_cast<int64_t>(tokens.size()), {&eos_id_, 1});
}

absl::Status Packer::Finish() { return tokens_.empty() ? absl::OkStatus() : Emit(); }

absl::Status Packer::Append(uint32_t document, int64_t document_offset,
                            std::span<const int32_t> tokens) {
  while (!tokens.empty()) {
    const size_t length = std::min(tokens.size(), instance_tokens_ - tokens_.size());
    // EOS, and the rest of a document, extend the span that the instance already has.
    if (document_offset > 0 && !spans_.empty()) {
      spans_.back().length += static_cast<int32_t>(length);
    } else {
      spans_.push_back({document, document_offset, static_cast<uint32_t>(num_instances_),
                        static_cast<int32_t>(tokens_.size()), static_cast<int32_t>(length)});
    }
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.begin() + length);
    tokens = tokens.subspan(length);
    document_offset += static_cast<int64_t>(length);
    num_tokens_ += static_cast<int64_t>(length);
    if (tokens_.size() == instance_tokens_) RETURN_IF_ERROR(Emit());
  }
  return absl::OkStatus();
}

absl::Status Packer::Emit() {
  RETURN_IF_ERROR(sink_(tokens_, spans_));
  ++num_instances_;
  tokens_.clear();
  spans_.clear();
  return absl::OkStatus();
}

std::vector<uint32_t> InstanceShuffle(int64_t num_instances, uint64_t seed) {
  // Differs from the random stream that RandomOrder draws with the same seed.
  constexpr uint64_t kStream = 0x696E7374616E6365ull;
  return RandomPermutation(num_instances, seed ^ kStream);
}

std::vector<uint32_t> ShuffleRuns(std::span<const uint32_t> order,
                                  std::span<const int32_t> num_tokens, int64_t run_tokens,
                                  uint64_t seed) {
  BRAID_CHECK(order.size() == num_tokens.size()) << order.size() << " " << num_tokens.size();
  // Differs from the streams of RandomOrder and InstanceShuffle.
  constexpr uint64_t kRunStream = 0x72756E7368756666ull;
  std::vector<size_t> begins = {0};
  int64_t tokens = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    tokens += int64_t{num_tokens[i]} + 1;
    if (tokens < run_tokens) continue;
    begins.push_back(i + 1);
    tokens = 0;
  }
  std::vector<uint32_t> shuffled;
  shuffled.reserve(order.size());
  for (const uint32_t run : RandomPermutation(std::ssize(begins), seed ^ kRunStream)) {
    const size_t end = run + 1 < begins.size() ? begins[run + 1] : order.size();
    shuffled.insert(shuffled.end(), order.begin() + begins[run], order.begin() + end);
  }
  return shuffled;
}

}  // namespace braid
