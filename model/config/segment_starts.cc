#include "model/config/segment_starts.h"

#include <algorithm>

namespace braid {

SegmentStarts::SegmentStarts(const v1::ModelConfig& resolved)
    : segment_length_(resolved.routing().segment_length()) {
  if (resolved.routing().segment_boundaries() == v1::RoutingConfig::DOCUMENT) {
    document_end_ = resolved.document_end();
  }
}

void SegmentStarts::Append(std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    const bool document = !documents_.empty() && documents_.back() == position_;
    if (starts_.empty() || document || position_ - starts_.back() == segment_length_) {
      starts_.push_back(position_);
    }
    ++position_;
    if (token == document_end_) documents_.push_back(position_);
  }
}

void SegmentStarts::Truncate(int64_t position) {
  position_ = position;
  while (!starts_.empty() && starts_.back() >= position) starts_.pop_back();
  while (!documents_.empty() && documents_.back() > position) documents_.pop_back();
}

int64_t SegmentStarts::SegmentAt(int64_t position) const {
  return std::ranges::upper_bound(starts_, position) - starts_.begin() - 1;
}

bool SegmentStarts::BeginsDocument(int64_t index) const {
  return index == 0 || std::ranges::binary_search(documents_, starts_[index]);
}

}  // namespace braid
