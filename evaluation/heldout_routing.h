// Routing decisions on the held-out windows of a dataset, added up as they come.
#ifndef BRAID_EVALUATION_HELDOUT_ROUTING_H_
#define BRAID_EVALUATION_HELDOUT_ROUTING_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/model.pb.h"
#include "evaluation/exciting_segments.h"
#include "model/language_model.h"
#include "trainer/data_loader.h"
#include "trainer/routing_totals.h"

namespace braid {

// Of one layer.
class HeldoutRouting {
 public:
  HeldoutRouting(const v1::ModelConfig& resolved, int layer, int num_domains, int texts_per_expert);

  // Windows first_window, first_window + 1, ... of a domain, which `batch` holds and
  // `weights` [B, R, E] routed.
  void Add(int domain, int64_t first_window, const Batch& batch, std::span<const float> weights);

  // Domains in the order of their numbers, which `domain_names` has; those without
  // a decision are left out. All but expert_similarity and texts.
  v1::LayerRoutingAnalysis Summarize(std::span<const std::string> domain_names) const;

  int layer() const { return layer_; }
  const ExcitingSegments& exciting() const { return exciting_; }

 private:
  const v1::ModelConfig& config_;
  const int layer_;
  std::vector<RoutingTotals> totals_;  // by domain
  ExcitingSegments exciting_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_HELDOUT_ROUTING_H_
