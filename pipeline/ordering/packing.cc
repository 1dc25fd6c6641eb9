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

}  // namespace braid
