// The top-activating segments of each expert of a layer: those to which the router gave it the
// highest weights.
#ifndef BRAID_EVALUATION_TOP_ACTIVATING_SEGMENTS_H_
#define BRAID_EVALUATION_TOP_ACTIVATING_SEGMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace braid {

// The input of a routing decision, and the weight that an expert received for it.
struct TopActivatingSegment {
  int32_t domain = 0;  // index of the domain
  int64_t window = 0;
  int32_t segment = 0;  // index in the window; a token where tokens are routed
  double weight = 0;
};

// Selects for each expert the segments with the highest weights, but only the best of each window:
// otherwise the top would be one text and its continuation. Ties go to the lowest (domain, window,
// segment).
//
//   TopActivatingSegments best(8, 3);
//   best.Offer(domain, window, segment, weights);   // weights [8]
//   best.Of(5)                                      // at most 3, best first
class TopActivatingSegments {
 public:
  TopActivatingSegments(int num_experts, int per_expert);

  // Considers one decision; `weights` is [E].
  void Offer(int32_t domain, int64_t window, int32_t segment, std::span<const float> weights);

  std::span<const TopActivatingSegment> Of(int expert) const { return best_[expert]; }

 private:
  const size_t per_expert_;
  std::vector<std::vector<TopActivatingSegment>> best_;  // [E], best first
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TOP_ACTIVATING_SEGMENTS_H_
