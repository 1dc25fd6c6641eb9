#include <faiss/utils/distances.h>

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "formats/check.h"
#include "retrieval/faiss_call.h"
#include "retrieval/parallel_for.h"
#include "retrieval/vector_index.h"

namespace braid {
namespace {

// Queries of one product: enough to pack the base vectors rarely, at most so many
// that its block of scores stays in cache. FAISS scans one by one below 20.
int64_t QueriesPerProduct(int64_t num_queries) {
  constexpr int64_t kLeast = 32, kMost = 512;
  const int64_t share = (num_queries + RetrievalThreads() - 1) / RetrievalThreads();
  return std::clamp(share, kLeast, kMost);
}

}  // namespace

absl::Status ExactSearch(std::span<const float> base, std::span<const float> queries, int32_t d,
                         int32_t k, SearchOutput output) {
  BRAID_CHECK(d > 0 && k > 0) << d << ", " << k;
  const size_t n = base.size() / static_cast<size_t>(d);
  const size_t m = queries.size() / static_cast<size_t>(d);
  BRAID_CHECK(output.ids.size() == m * k && output.scores.size() == m * k) << output.ids.size();
  const std::string what = absl::StrCat("exact search of ", m, " among ", n);
  std::mutex mutex;
  absl::Status first_failure;
  // A single-threaded product in each thread: threads that share one wait for each
  // other, endlessly when cores are busy.
  const auto search = [&](int64_t begin, int64_t end) {
    const absl::Status status = FaissCall(absl::StatusCode::kInternal, what, 1, [&] {
      faiss::knn_inner_product(queries.data() + begin * d, base.data(), d, end - begin, n, k,
                               output.scores.data() + begin * k, output.ids.data() + begin * k);
    });
    const std::lock_guard lock(mutex);
    first_failure.Update(status);
  };
  ParallelFor(static_cast<int64_t>(m), QueriesPerProduct(static_cast<int64_t>(m)), search);
  if (first_failure.ok()) SortSearchOutput(k, output);
  return first_failure;
}

}  // namespace braid
