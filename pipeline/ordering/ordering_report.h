// How well an order puts similar documents together, and what packing made of
// it, each beside the same number for a random order.
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

// One numbering of documents throughout: documents in `order` and `spans` index
// the rows of `embeddings` and `domains`, which may have rows for documents that
// are in neither (duplicates, held-out documents).
struct OrderingReportInput {
  std::string order_name;  // "SIMILARITY", "RANDOM" or "SOURCE"
  const DocumentOrder& order;
  std::span<const float> embeddings = {};      // [>= max document + 1, dimension]
  int32_t dimension = 0;                       // 0 without embeddings: cosines are then 0
  std::span<const int32_t> domains = {};       // domain index per document; may be empty
  std::span<const ProvenanceSpan> spans = {};  // as stored, sorted by (instance, instance_offset)
  int32_t sequence_length = 0;
  double recall_at_k = 0;  // of the neighbour graph, passed on
  int32_t k = 0;
  uint64_t seed = 0;  // of the random order compared with
};

// Cosines are means over pairs, 0 when there is no pair.
struct OrderingReport {
  std::string order;
  int64_t num_documents = 0;
  double adjacent_cosine = 0;         // consecutive documents of the order, jumps included
  double random_adjacent_cosine = 0;  // the same documents in a random order
  double adjacent_cosine_within_instances = 0;         // consecutive documents of one instance
  double random_adjacent_cosine_within_instances = 0;  // the same documents packed in a
                                                       // random order
  double adjacent_cosine_across_instances = 0;  // last document of a stored instance and first of
                                                // the next; diverse if near the random one
  int64_t restarts = 0;                         // jumps of the walk: paths - 1
  double mean_path_length = 0;                  // in documents
  double median_path_length = 0;
  int64_t max_path_length = 0;
  double domain_purity = 0;         // share of tokens in their instance's majority domain
  double random_domain_purity = 0;  // the same documents packed in a random order
  double recall_at_k = 0;
  int32_t k = 0;
};

// O(documents * dimension); reads each embedding a few times, so they may be
// memory-mapped.
OrderingReport MeasureOrdering(const OrderingReportInput& input);
// The same; `keep_going` is asked every few milliseconds and its error is returned.
absl::StatusOr<OrderingReport> MeasureOrdering(const OrderingReportInput& input,
                                               const std::function<absl::Status()>& keep_going);

// The report as a JSON object; keys are the fields' names.
std::string ToJson(const OrderingReport& report);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_ORDERING_REPORT_H_
