// Selection of the highest of many scores that arrive as rows of a matrix product.
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

// Orders by descending score, ties by ascending id.
inline bool IsCloser(const ScoredId& a, const ScoredId& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

// Keeps the best `depth` scores. Almost all scores are too low, which is detected for 32 of them at
// a time. The others are collected and from time to time reduced to the best `depth`. So a score
// costs about as much as reading it. Not thread-safe.
class BestScores {
 public:
  static int64_t Capacity(int64_t depth) { return 2 * depth; }

  BestScores() = default;
  // Uses `buffer` [Capacity(depth)], which must outlive this object. Requires depth > 0.
  BestScores(int64_t depth, ScoredId* buffer) : depth_(depth), buffer_(buffer) {}

  // Adds scores with their ids, of the same length. A score equal to the lowest one kept may be
  // dropped whatever its id; NaN is always dropped.
  void Offer(std::span<const float> scores, const uint32_t* ids);

  // Returns the best min(depth, number offered) in unspecified order.
  std::span<ScoredId> Take();

 private:
  void CutBack();

  int64_t depth_ = 0;
  ScoredId* buffer_ = nullptr;
  int64_t size_ = 0;
  float threshold_ =
      -std::numeric_limits<float>::infinity();  // scores that are not above it are dropped
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_BEST_SCORES_H_
