// Limits of ExplainInstances that its service, the gate of the server and its callers share.
#ifndef BRAID_RPC_EXPLANATION_LIMITS_H_
#define BRAID_RPC_EXPLANATION_LIMITS_H_

#include <cstdint>

namespace braid {

// Instances of one request; a step with more of them cannot be explained.
inline constexpr int32_t kMaxExplainedInstances = 65'536;

}  // namespace braid

#endif  // BRAID_RPC_EXPLANATION_LIMITS_H_
