#include <faiss/utils/distances.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "retrieval/faiss_call.h"
#include "retrieval/parallel_for.h"
#include "retrieval/vector_index.h"

namespace braid {
namespace {

// Queries of one product: enough to pack the base vectors rarely, few enough to keep the block of
// scores in cache and to finish within a second. FAISS scans one by one below 20.
int64_t QueriesPerProduct(int64_t num_queries, int64_t n, int32_t d) {
  constexpr int64_t kLeast = 32, kMost = 512;
  constexpr double kMultiplications = 2.5e10;
  const int64_t share = (num_queries + RetrievalThreads() - 1) / RetrievalThreads();
  const double quick = kMultiplications / (static_cast<double>(std::max<int64_t>(n, 1)) * d);
  return std::clamp(static_cast<int64_t>(std::min(static_cast<double>(share), quick)), kLeast,
                    kMost);
}

}  // namespace

absl::Status ExactSearch(std::span<const float> base, std::span<const float> queries, int32_t d,
                         int32_t k, SearchOutput output, const StopCheck& check) {
  BRAID_CHECK(d > 0 && k > 0) << d << ", " << k;
  const size_t n = base.size() / static_cast<size_t>(d);
  const size_t m = queries.size() / static_cast<size_t>(d);
  BRAID_CHECK(output.ids.size() == m * k && output.scores.size() == m * k) << output.ids.size();
  const std::string what = absl::StrCat("exact search of ", m, " among ", n);
  std::mutex mutex;
  absl::Status first_failure;
  // Runs a single-threaded product in each thread: threads that share one product wait for each
  // other, endlessly when cores are busy.
  const auto search = [&](int64_t begin, int64_t end, const std::atomic<bool>&) {
    const absl::Status status = FaissCall(absl::StatusCode::kInternal, what, 1, [&] {
      faiss::knn_inner_product(queries.data() + begin * d, base.data(), d, end - begin, n, k,
                               output.scores.data() + begin * k, output.ids.data() + begin * k);
    });
    const std::lock_guard lock(mutex);
    first_failure.Update(status);
  };
  const auto num_queries = static_cast<int64_t>(m);
  const int64_t block = QueriesPerProduct(num_queries, static_cast<int64_t>(n), d);
  RETURN_IF_ERROR(ParallelForUntil(num_queries, block, check, search));
  RETURN_IF_ERROR(first_failure);
  SortSearchOutput(k, output);
  return absl::OkStatus();
}

}  // namespace braid
