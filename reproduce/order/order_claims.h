// The claims of docs/reproduction/order.md as pure functions of the measurements.
#ifndef BRAID_REPRODUCE_ORDER_ORDER_CLAIMS_H_
#define BRAID_REPRODUCE_ORDER_ORDER_CLAIMS_H_

#include <string>
#include <vector>

#include "braid/v1/model.pb.h"
#include "reproduce/claim.h"

namespace braid {

// Sequences of the batches; kLongBatch is that of long and longest runs.
inline constexpr int kSmallBatch = 4;
inline constexpr int kLargeBatch = 16;
inline constexpr int kLongBatch = 64;
inline constexpr int kLargestBatch = 256;

// Returns "dense-4-open", "moe-16-document", ...: the name of an arm.
std::string OrderArm(const std::string& model, int batch, v1::AttentionMask mask);

// Returns "dense-4-long", ...: the name of an arm of long runs with mask OPEN.
std::string LongArm(const std::string& model, int batch);

// Returns "dense-4-tuned", ...: the name of an arm of long runs at the best rate of the batch.
std::string TunedArm(const std::string& model, int batch);

// Returns "dense-64-longest", ...: the name of an arm with as many steps of 64 sequences as others
// have of 4, or with as many tokens.
std::string LongestArm(const std::string& model, int batch);

// Returns claims 1 to 10, 13 and 14 in order, also those without measurements.
std::vector<Claim> EvaluateOrderClaims(const Evidence& evidence, const ClaimSettings& settings);

}  // namespace braid

#endif  // BRAID_REPRODUCE_ORDER_ORDER_CLAIMS_H_
