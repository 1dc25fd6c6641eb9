#include "trainer/routing_health.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "model/config/model_config.h"
#include "trainer/expert_similarity.h"

namespace braid {
namespace {

std::vector<bool> ActiveFlags(const std::vector<RoutingTotals>& totals) {
  std::vector<bool> flags;
  for (const RoutingTotals& layer : totals) {
    for (double count : ActiveCounts(layer)) flags.push_back(count > 0);
  }
  return flags;
}

// The values that are summed over ranks. For each layer: its sums, then the active flags of the
// window [E], then the cosine, which only one rank has computed.
class Exchange {
 public:
  Exchange(size_t layers, size_t experts)
      : experts_(experts), stride_(2 + 3 * experts + 1), values_(layers * stride_) {}

  std::span<double> sums(size_t layer) { return At(layer, 0, 2 + 2 * experts_); }
  std::span<double> active(size_t layer) { return At(layer, 2 + 2 * experts_, experts_); }
  double& cosine(size_t layer) { return values_[(layer + 1) * stride_ - 1]; }
  std::span<double> values() { return values_; }

 private:
  std::span<double> At(size_t layer, size_t offset, size_t count) {
    return std::span(values_).subspan(layer * stride_ + offset, count);
  }

  const size_t experts_, stride_;
  std::vector<double> values_;
};

v1::LayerRouting ToProto(int layer, size_t index, size_t experts, bool chosen, Exchange* exchange) {
  RoutingTotals totals(static_cast<int>(experts));
  std::ranges::copy(exchange->sums(index), totals.sums.begin());
  v1::LayerRouting routing = Summarize(layer, totals);
  routing.set_active_experts(static_cast<int32_t>(
      std::ranges::count_if(exchange->active(index), [](double flags) { return flags > 0; })));
  routing.set_expert_cosine(exchange->cosine(index));
  if (chosen) SetLoads(totals, &routing);
  return routing;
}

}  // namespace

void RoutingHealth::AddStep(std::vector<RoutingTotals> totals) {
  newest_ = std::move(totals);
  if (newest_.empty()) return;
  active_.push_back(ActiveFlags(newest_));
  if (active_.size() > kWindowSteps) active_.pop_front();
}

// All measurements travel in one all-reduce. Sums are additive by construction; an expert is active
// if the sum of its flags over ranks and steps is positive; a cosine is added to zeros of the other
// ranks.
absl::StatusOr<std::vector<v1::LayerRouting>> RoutingHealth::Measure(
    LanguageModel& model, Communicator& communicator) const {
  if (newest_.empty()) return std::vector<v1::LayerRouting>();
  const std::vector<int> layers = MoeLayers(model.config());
  BRAID_CHECK(layers.size() == newest_.size()) << layers.size() << " " << newest_.size();
  const size_t experts = static_cast<size_t>(newest_[0].num_experts());
  const size_t world = static_cast<size_t>(communicator.world_size());
  Exchange exchange(layers.size(), experts);
  for (size_t i = 0; i < layers.size(); ++i) {
    std::ranges::copy(newest_[i].sums, exchange.sums(i).begin());
    for (const std::vector<bool>& step : active_) {
      for (size_t e = 0; e < experts; ++e) exchange.active(i)[e] += step[i * experts + e];
    }
    // Weights are the same on all ranks, so one rank per layer computes the cosine.
    if (i % world == static_cast<size_t>(communicator.rank())) {
      exchange.cosine(i) = ExpertCosine(model, layers[i]);
    }
  }
  RETURN_IF_ERROR(communicator.AllReduceSum(exchange.values()));
  const bool chosen = model.config().routing().router() == v1::TOKEN_CHOICE;
  std::vector<v1::LayerRouting> result;
  for (size_t i = 0; i < layers.size(); ++i) {
    result.push_back(ToProto(layers[i], i, experts, chosen, &exchange));
  }
  return result;
}

}  // namespace braid
