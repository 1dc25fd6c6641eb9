// Measures how well an order groups similar documents, before and after packing, next to the same
// figures for a random order.
#ifndef BRAID_PIPELINE_ORDERING_ORDERING_REPORT_H_
#define BRAID_PIPELINE_ORDERING_ORDERING_REPORT_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/ordering/packing.h"
#include "pipeline/ordering/similarity_order.h"

namespace braid {

// The input of MeasureOrdering(). The documents in `order` and `spans` index the rows of
// `embeddings` and `domains`, which may have further rows (duplicates, held-out documents).
struct OrderingReportInput {
  std::string order_name;  // "SIMILARITY", "RANDOM" or "SOURCE"
  const DocumentOrder& order;
  std::span<const float> embeddings = {};      // [>= max document + 1, dimension]
  int32_t dimension = 0;                       // 0: no embeddings, and all cosines are 0
  std::span<const int32_t> domains = {};       // domain index per document; may be empty
  std::span<const ProvenanceSpan> spans = {};  // as stored, sorted by (instance, instance_offset)
  int32_t sequence_length = 0;
  double recall_at_k = 0;  // for the neighbor graph; copied to the report
  int32_t k = 0;
  uint64_t seed = 0;  // seed of the random order
};

// The measured figures. Cosines are means over pairs of documents, 0 without any pair.
struct OrderingReport {
  std::string order;
  int64_t num_documents = 0;
  double adjacent_cosine = 0;         // consecutive documents of the order, restarts included
  double random_adjacent_cosine = 0;  // the same documents in a random order
  double adjacent_cosine_within_instances = 0;         // consecutive documents of one instance
  double random_adjacent_cosine_within_instances = 0;  // the same documents packed in a
                                                       // random order
  double adjacent_cosine_across_instances = 0;  // last document of a stored instance and first of
                                                // the next; near the random one if diverse
  int64_t restarts = 0;                         // restarts of the walk: paths - 1
  double mean_path_length = 0;                  // in documents
  double median_path_length = 0;
  int64_t max_path_length = 0;
  double domain_purity = 0;         // share of tokens in their instance's majority domain
  double random_domain_purity = 0;  // the same documents packed in a random order
  double recall_at_k = 0;
  int32_t k = 0;
};

// Measures an order. O(documents * dimension); reads each embedding a few times, so they may be
// memory-mapped. Calls `keep_going` every few milliseconds while it reads embeddings, and returns
// its error.
absl::StatusOr<OrderingReport> MeasureOrdering(const OrderingReportInput& input,
                                               const std::function<absl::Status()>& keep_going);

// Returns the report as a JSON object whose keys are the names of the fields.
std::string ToJson(const OrderingReport& report);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_ORDERING_REPORT_H_
