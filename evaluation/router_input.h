// The positions on which a router bases a decision: the inverse view of "Segment routing" in
// docs/model.md.
#ifndef BRAID_EVALUATION_ROUTER_INPUT_H_
#define BRAID_EVALUATION_ROUTER_INPUT_H_

#include <cstdint>
#include <optional>
#include <span>

#include "braid/v1/model.pb.h"

namespace braid {

// Positions [begin, end) of a sequence, clipped to its length.
struct RouterInput {
  int32_t segment = 0;  // index, or first position, of what routes
  int64_t begin = 0;
  int64_t end = 0;
};

// Returns the input of decision n of a sequence under `resolved`, a model with experts.
// CAUSAL_SEGMENT and EXPERT_CHOICE_SEGMENT use segment n - 1, and their own segment for the first
// decision; PREFIX always uses segment 0; EXPERT_CHOICE_TOKEN uses token n (shown with the 31
// tokens before it). With segments that begin with documents, decision n is that of the segment
// that begins at position n, one of `starts` (SegmentStarts::starts), which nothing else uses; its
// input is the segment before. nullopt for a decision without input: the first one under UNIFORM.
std::optional<RouterInput> RouterInputOf(const v1::ModelConfig& resolved, int64_t decision,
                                         std::span<const int64_t> starts = {});

}  // namespace braid

#endif  // BRAID_EVALUATION_ROUTER_INPUT_H_
