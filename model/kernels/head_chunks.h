// How many tokens an output head computes at a time (cross_entropy.h).
#ifndef BRAID_MODEL_KERNELS_HEAD_CHUNKS_H_
#define BRAID_MODEL_KERNELS_HEAD_CHUNKS_H_

#include <algorithm>
#include <cstdint>

namespace braid {

// Returns the number of tokens of a chunk: enough that dhead [V, D] is rewritten rarely, few enough
// that the logits of small vocabularies stay in cache. It does not depend on the number of threads,
// because the sums into dhead are taken chunk by chunk.
constexpr int64_t HeadChunkTokens(int64_t vocabulary) {
  return std::max<int64_t>(512, (int64_t{512} << 10) / vocabulary);
}

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_HEAD_CHUNKS_H_
