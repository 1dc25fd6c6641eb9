#include <faiss/utils/distances.h>

#include "absl/strings/str_cat.h"
#include "formats/check.h"
#include "retrieval/faiss_call.h"
#include "retrieval/vector_index.h"

namespace braid {

absl::Status ExactSearch(std::span<const float> base, std::span<const float> queries, int32_t d,
                         int32_t k, SearchOutput output) {
  BRAID_CHECK(d > 0 && k > 0) << d << ", " << k;
  const size_t n = base.size() / static_cast<size_t>(d);
  const size_t m = queries.size() / static_cast<size_t>(d);
  BRAID_CHECK(output.ids.size() == m * k && output.scores.size() == m * k) << output.ids.size();
  const absl::Status status = FaissCall(
      absl::StatusCode::kInternal, absl::StrCat("exact search of ", m, " among ", n), [&] {
        faiss::knn_inner_product(queries.data(), base.data(), d, m, n, k, output.scores.data(),
                                 output.ids.data());
      });
  if (status.ok()) SortSearchOutput(k, output);
  return status;
}

}  // namespace braid
