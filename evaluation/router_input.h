// What a router looked at when it decided: the inverse view of docs/model.md's
// "Segment routing".
#ifndef BRAID_EVALUATION_ROUTER_INPUT_H_
#define BRAID_EVALUATION_ROUTER_INPUT_H_

#include <cstdint>
#include <optional>

#include "braid/v1/model.pb.h"

namespace braid {

// Positions [begin, end) of a sequence, as long as the sequence is.
struct RouterInput {
  int32_t segment = 0;  // a token where tokens are routed
  int64_t begin = 0;
  int64_t end = 0;
};

// Of decision n of a sequence under `resolved`, a model with experts:
// CAUSAL_SEGMENT and EXPERT_CHOICE_SEGMENT look at segment n - 1, the first
// decision at its own; PREFIX always at segment 0; EXPERT_CHOICE_TOKEN at token n
// (shown behind the 31 before it). nullopt for a decision without a look: the
// first one under UNIFORM.
std::optional<RouterInput> RouterInputOf(const v1::ModelConfig& resolved, int64_t decision);

}  // namespace braid

#endif  // BRAID_EVALUATION_ROUTER_INPUT_H_
