// Accumulates routing decisions on the held-out windows of a dataset.
#ifndef BRAID_EVALUATION_HELDOUT_ROUTING_H_
#define BRAID_EVALUATION_HELDOUT_ROUTING_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/model.pb.h"
#include "evaluation/top_activating_segments.h"
#include "model/language_model.h"
#include "trainer/data_loader.h"
#include "trainer/routing_totals.h"

namespace braid::v1 {
class LayerRoutingAnalysis;
}  // namespace braid::v1

namespace braid {

// The decisions of one layer.
class HeldoutRouting {
 public:
  HeldoutRouting(const v1::ModelConfig& resolved, int layer, int num_domains, int texts_per_expert);

  // Adds windows first_window, first_window + 1, ... of a domain: `batch` holds them and `routed`
  // the routing of the layer.
  void Add(int domain, int64_t first_window, const Batch& batch, const LayerRoutingWeights& routed);

  // Returns the analysis of the layer, without expert_similarity and texts. Domains appear in the
  // order of `domain_names`; those without a decision are omitted.
  v1::LayerRoutingAnalysis Summarize(std::span<const std::string> domain_names) const;

  int layer() const { return layer_; }
  const TopActivatingSegments& top_activating() const { return top_activating_; }

 private:
  const v1::ModelConfig& config_;
  const int layer_;
  std::vector<RoutingTotals> totals_;  // one per domain
  TopActivatingSegments top_activating_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_HELDOUT_ROUTING_H_
