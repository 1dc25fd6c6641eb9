// The text behind a segment of a held-out window, and where it is from.
#ifndef BRAID_EVALUATION_SEGMENT_TEXT_H_
#define BRAID_EVALUATION_SEGMENT_TEXT_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/model.pb.h"
#include "evaluation/exciting_segments.h"
#include "evaluation/heldout_split.h"
#include "trainer/data_loader.h"

namespace braid {

// At most `characters` of UTF-8 text, an ellipsis behind what was cut.
std::string CutText(std::string_view text, int characters);

class SegmentTexts {
 public:
  using Decode = std::function<std::string(std::span<const int32_t>)>;

  // `resolved` and `domains` stay valid as long as this.
  SegmentTexts(const v1::ModelConfig& resolved, int32_t eos, std::span<const HeldoutDomain> domains,
               Decode decode);

  // Takes the next windows of a domain, each once and in order: documents end with
  // EOS, so they can be numbered.
  void CountDocuments(int domain, const Batch& batch);

  // Reads the window again. Requires its documents to be counted.
  absl::StatusOr<v1::ExpertText> Describe(const ExcitingSegment& segment) const;

 private:
  const v1::ModelConfig& config_;
  const int32_t eos_;
  const std::span<const HeldoutDomain> domains_;
  const Decode decode_;
  // [domain][window]: documents that ended before it.
  std::vector<std::vector<int64_t>> ended_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_SEGMENT_TEXT_H_
