#include "retrieval/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "formats/check.h"

namespace braid {
namespace {

std::atomic<int> retrieval_threads{0};

}  // namespace

void SetRetrievalThreads(int num_threads) {
  BRAID_CHECK(num_threads >= 0) << num_threads;
  retrieval_threads = num_threads;
}

int RetrievalThreads() {
  const int chosen = retrieval_threads;
  return chosen > 0 ? chosen : std::max(1u, std::thread::hardware_concurrency());
}

void ParallelFor(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  BRAID_CHECK(grain > 0) << grain;
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t begin; (begin = next.fetch_add(grain)) < n;) {
      body(begin, std::min(begin + grain, n));
    }
  };
  const int64_t num_blocks = (n + grain - 1) / grain;
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < std::min<int64_t>(RetrievalThreads(), num_blocks); ++i) {
    others.emplace_back(work);
  }
  work();
}

}  // namespace braid
