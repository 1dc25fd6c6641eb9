// The segments of text that excite each expert of a layer most.
#ifndef BRAID_EVALUATION_EXCITING_SEGMENTS_H_
#define BRAID_EVALUATION_EXCITING_SEGMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace braid {

// What a router looked at, and the weight it gave an expert for it.
struct ExcitingSegment {
  int32_t domain = 0;  // index
  int64_t window = 0;
  int32_t segment = 0;  // of the window; a token where tokens are routed
  double weight = 0;
};

// Keeps for each expert the segments with the highest weights, but of each window
// the best alone: the top would otherwise be one text and what follows it. Equal
// weights go to the lowest (domain, window, segment).
//
//   ExcitingSegments best(8, 3);
//   best.Offer(domain, window, segment, weights);   // weights [8]
//   best.Of(5)                                      // at most 3, best first
class ExcitingSegments {
 public:
  ExcitingSegments(int num_experts, int per_expert);

  // `weights` [E]: of one decision.
  void Offer(int32_t domain, int64_t window, int32_t segment, std::span<const float> weights);

  std::span<const ExcitingSegment> Of(int expert) const { return best_[expert]; }

 private:
  const size_t per_expert_;
  std::vector<std::vector<ExcitingSegment>> best_;  // [E], best first
};

}  // namespace braid

#endif  // BRAID_EVALUATION_EXCITING_SEGMENTS_H_
