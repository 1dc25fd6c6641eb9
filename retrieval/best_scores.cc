#include "retrieval/best_scores.h"

#include <algorithm>

namespace braid {
namespace {

constexpr int64_t kStride = 32;

// Functions compiled for several instruction sets, of which the loader chooses one. Not under
// sanitizers, whose run time is not initialized when the loader chooses.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(BRAID_ASAN) && !defined(BRAID_TSAN)
#define BRAID_AVX512_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define BRAID_AVX512_CLONES
#endif

// Returns the first offset, in steps of kStride from `begin`, at which one of the next kStride
// scores is above the threshold; if there is none, the offset within kStride of the end where full
// steps stop.
BRAID_AVX512_CLONES int64_t SkipLow(const float* scores, int64_t begin, int64_t n,
                                    float threshold) {
  for (; begin + kStride <= n; begin += kStride) {
    uint32_t any = 0;
    for (int64_t i = 0; i < kStride; ++i) any |= scores[begin + i] > threshold;
    if (any != 0) break;
  }
  return begin;
}

}  // namespace

void BestScores::Offer(std::span<const float> scores, const uint32_t* ids) {
  const auto n = static_cast<int64_t>(scores.size());
  for (int64_t begin = 0; (begin = SkipLow(scores.data(), begin, n, threshold_)) < n;
       begin += kStride) {
    const int64_t end = std::min(begin + kStride, n);
    for (int64_t i = begin; i < end; ++i) {
      if (!(scores[i] > threshold_)) continue;
      buffer_[size_++] = {ids[i], scores[i]};
      if (size_ == Capacity(depth_)) CutBack();
    }
  }
}

std::span<ScoredId> BestScores::Take() {
  if (size_ > depth_) CutBack();
  return {buffer_, static_cast<size_t>(size_)};
}

void BestScores::CutBack() {
  std::nth_element(buffer_, buffer_ + depth_ - 1, buffer_ + size_, IsCloser);
  size_ = depth_;
  threshold_ = buffer_[depth_ - 1].score;
}

}  // namespace braid
