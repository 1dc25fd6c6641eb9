#include "evaluation/heldout_routing.h"

#include <cstddef>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/analysis.pb.h"
#include "evaluation/router_input.h"
#include "evaluation/statistics/routing_divergence.h"
#include "model/config/document_config.h"
#include "model/config/model_config.h"
#include "model/config/segment_starts.h"

namespace braid {
namespace {

v1::DomainRouting ToProto(const std::string& domain, const RoutingTotals& totals) {
  const v1::LayerRouting summary = braid::Summarize(0, totals);
  v1::DomainRouting result;
  result.set_domain(domain);
  result.set_num_decisions(static_cast<int64_t>(totals.num_decisions()));
  *result.mutable_weights() = summary.mean_weights();
  result.set_entropy(summary.entropy());
  return result;
}

// Returns the segments of sequence b if they begin with documents; otherwise none.
SegmentStarts SegmentsOf(const v1::ModelConfig& config, const Batch& batch, int64_t b) {
  SegmentStarts segments(config);
  if (!CutsAtDocuments(config.routing()) || RoutesTokens(config.routing())) return segments;
  const int64_t length = std::ssize(batch.inputs) / batch.batch_size;
  segments.Append(std::span(batch.inputs).subspan(b * length, batch.lengths[b]));
  return segments;
}

// Returns the numbers of the decisions of a sequence, each once.
std::vector<int64_t> DecisionsOf(const v1::ModelConfig& config, int64_t length,
                                 const SegmentStarts& segments) {
  if (!segments.starts().empty()) {
    std::vector<int64_t> decisions;
    for (int64_t i = 0; i < std::ssize(segments.starts()); ++i) {
      // Weights that a document resets come from no text.
      const bool is_reset = i > 0 && segments.BeginsDocument(i);
      if (config.routing().reset_at_documents() && is_reset) continue;
      decisions.push_back(segments.starts()[i]);
    }
    return decisions;
  }
  const int64_t tokens = TokensPerDecision(config);
  std::vector<int64_t> decisions((length + tokens - 1) / tokens);
  std::iota(decisions.begin(), decisions.end(), int64_t{0});
  return decisions;
}

}  // namespace

HeldoutRouting::HeldoutRouting(const v1::ModelConfig& resolved, int layer, int num_domains,
                               int texts_per_expert)
    : config_(resolved),
      layer_(layer),
      totals_(static_cast<size_t>(num_domains), RoutingTotals(resolved.routing().num_experts())),
      top_activating_(resolved.routing().num_experts(), texts_per_expert) {}

void HeldoutRouting::Add(int domain, int64_t first_window, const Batch& batch,
                         const LayerRoutingWeights& routed) {
  const std::span<const float> weights = routed.weights;
  const int64_t tokens = TokensPerDecision(config_);
  AddBatch(weights, batch.lengths, tokens, &totals_[domain], routed.chosen);
  const size_t experts = static_cast<size_t>(config_.routing().num_experts());
  const size_t per_sequence = weights.size() / static_cast<size_t>(batch.batch_size);
  for (int64_t b = 0; b < batch.batch_size; ++b) {
    const SegmentStarts segments = SegmentsOf(config_, batch, b);
    for (const int64_t n : DecisionsOf(config_, batch.lengths[b], segments)) {
      const std::optional<RouterInput> input = RouterInputOf(config_, n, segments.starts());
      if (!input) continue;
      top_activating_.Offer(domain, first_window + b, input->segment,
                            weights.subspan(b * per_sequence + n * experts, experts));
    }
  }
}

v1::LayerRoutingAnalysis HeldoutRouting::Summarize(
    std::span<const std::string> domain_names) const {
  v1::LayerRoutingAnalysis result;
  RoutingTotals all(config_.routing().num_experts());
  std::vector<std::vector<double>> means;
  for (size_t d = 0; d < totals_.size(); ++d) {
    if (totals_[d].num_decisions() == 0) continue;
    *result.add_domains() = ToProto(domain_names[d], totals_[d]);
    means.push_back(MeanWeights(totals_[d]));
    for (size_t i = 0; i < all.sums.size(); ++i) all.sums[i] += totals_[d].sums[i];
  }
  const v1::LayerRouting summary = braid::Summarize(layer_, all);
  result.set_layer(layer_);
  result.set_divergence(JensenShannonDivergence(means));
  result.set_entropy(summary.entropy());
  result.set_effective_experts(summary.effective_experts());
  for (const double count : ActiveCounts(all)) {
    result.add_active_share(all.num_decisions() > 0 ? count / all.num_decisions() : 0);
  }
  return result;
}

}  // namespace braid
