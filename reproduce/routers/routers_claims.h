// The claims of docs/reproduction/routers.md as pure functions of the measurements.
#ifndef BRAID_REPRODUCE_ROUTERS_ROUTERS_CLAIMS_H_
#define BRAID_REPRODUCE_ROUTERS_ROUTERS_CLAIMS_H_

#include <span>
#include <vector>

#include "reproduce/claim.h"

namespace braid {

// The arm with soft merging.
inline constexpr char kSoftMerging[] = "moe";

// An arm that soft merging is compared with.
struct RouterRival {
  const char* name;
  // Experts per token of a TOKEN_CHOICE model; 0: other models.
  int32_t active_experts = 0;
  // False if its training sees later tokens, so that its training loss cannot be compared.
  bool causal_training = true;
};

// Returns the rivals in the order of the claims, which begin with 1.
std::span<const RouterRival> RouterRivals();

// Returns one claim for each rival, also those without measurements.
std::vector<Claim> EvaluateRouterClaims(const Evidence& evidence, const ClaimSettings& settings);

}  // namespace braid

#endif  // BRAID_REPRODUCE_ROUTERS_ROUTERS_CLAIMS_H_
