// Where the segments of a growing sequence begin (RoutingConfig.segment_boundaries).
#ifndef BRAID_MODEL_CONFIG_SEGMENT_STARTS_H_
#define BRAID_MODEL_CONFIG_SEGMENT_STARTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "braid/v1/model.pb.h"

namespace braid {

// The segments of the tokens appended so far. A segment begins at the first token, and
// segment_length tokens after the start of the one before; with the boundaries DOCUMENT also after
// every token document_end.
//
//   SegmentStarts segments(config);         // DOCUMENT, segments of 4, documents end with 0
//   segments.Append({5, 5, 0, 5, 5, 5, 5, 5});  // segments begin at 0, 3 and 7
class SegmentStarts {
 public:
  // `resolved` comes from ResolveModelConfig.
  explicit SegmentStarts(const v1::ModelConfig& resolved);

  void Append(std::span<const int32_t> tokens);
  // Removes the tokens from `position` on. Requires 0 <= position <= position().
  void Truncate(int64_t position);

  int64_t position() const { return position_; }
  // Returns the positions at which segments begin, ascending.
  std::span<const int64_t> starts() const { return starts_; }
  // Returns the index of the segment that contains `position`, one of those appended.
  int64_t SegmentAt(int64_t position) const;
  // Returns whether segment `index` is the first one of a document; segment 0 always is.
  bool BeginsDocument(int64_t index) const;

 private:
  int64_t segment_length_;
  int32_t document_end_ = -1;
  int64_t position_ = 0;
  std::vector<int64_t> starts_;
  std::vector<int64_t> documents_;  // positions after a token document_end
};

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_SEGMENT_STARTS_H_
