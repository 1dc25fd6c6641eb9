// The text of a segment of a held-out window, and where it comes from.
#ifndef BRAID_EVALUATION_SEGMENT_TEXT_H_
#define BRAID_EVALUATION_SEGMENT_TEXT_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "evaluation/heldout_windows.h"
#include "evaluation/top_activating_segments.h"
#include "trainer/data_loader.h"

namespace braid::v1 {
class ExpertText;
}  // namespace braid::v1

namespace braid {

// Returns at most `characters` characters of UTF-8 text, followed by an ellipsis if text was cut
// off.
std::string CutText(std::string_view text, int characters);

class SegmentTexts {
 public:
  using Decode = std::function<std::string(std::span<const int32_t>)>;

  // `resolved` and `domains` must outlive this.
  SegmentTexts(const v1::ModelConfig& resolved, int32_t eos, std::span<const HeldoutDomain> domains,
               Decode decode);

  // Counts the documents in the next windows of a domain. Every window must be passed once, in
  // order; documents end with EOS, which gives each its number.
  void CountDocuments(int domain, const Batch& batch);

  // Reads the window again and describes the segment. Requires that its documents have been
  // counted.
  absl::StatusOr<v1::ExpertText> Describe(const TopActivatingSegment& segment) const;

 private:
  const v1::ModelConfig& config_;
  const int32_t eos_;
  const std::span<const HeldoutDomain> domains_;
  const Decode decode_;
  // [domain][window]: number of documents that ended before the window.
  std::vector<std::vector<int64_t>> ended_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_SEGMENT_TEXT_H_
