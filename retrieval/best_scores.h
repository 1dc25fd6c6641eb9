// The highest of many scores, taken in as rows of a matrix product.
//
//   std::vector<ScoredId> buffer(BestScores::Capacity(depth));
//   BestScores best(depth, buffer.data());
//   best.Offer(scores, ids);            // any number of times
//   for (const ScoredId& kept : best.Take()) ...
#ifndef BRAID_RETRIEVAL_BEST_SCORES_H_
#define BRAID_RETRIEVAL_BEST_SCORES_H_

#include <cstdint>
#include <limits>
#include <span>

namespace braid {

struct ScoredId {
  uint32_t id;
  float score;
};

// By descending score, ties by ascending id.
inline bool IsCloser(const ScoredId& a, const ScoredId& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

// Almost all scores are too low, which is seen for 32 of them at a time; the others
// are collected and cut back to the best `depth` now and then. So a score costs
// about as much as reading it.
class BestScores {
 public:
  static int64_t Capacity(int64_t depth) { return 2 * depth; }

  BestScores() = default;
  // `buffer`: [Capacity(depth)], used as long as this object. Requires: depth > 0.
  BestScores(int64_t depth, ScoredId* buffer) : depth_(depth), buffer_(buffer) {}

  // ids: of the same length as scores. A score equal to the lowest kept may be left
  // out whatever its id; NaN always is.
  void Offer(std::span<const float> scores, const uint32_t* ids);

  // The best min(depth, offered), in no order.
  std::span<ScoredId> Take();

 private:
  void CutBack();

  int64_t depth_ = 0;
  ScoredId* buffer_ = nullptr;
  int64_t size_ = 0;
  float threshold_ = -std::numeric_limits<float>::infinity();  // what is not above it is not kept
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_BEST_SCORES_H_
