#include "trainer/layer_choice_shares.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/status_macros.h"
#include "model/config/layer_mixing_config.h"

namespace braid {

absl::StatusOr<std::vector<v1::LayerChoices>> LayerChoiceShares(
    const v1::ModelConfig& model, const std::vector<LayerChoiceCounts>& counts,
    Communicator& communicator) {
  std::vector<v1::LayerChoices> shares;
  if (MixesNothing(model)) return shares;
  const std::vector<int> mixing = MixingLayers(model);
  const auto num_layers = static_cast<size_t>(model.num_layers());
  // Doubles hold counts up to 2^53 exactly.
  std::vector<double> sums(mixing.size() * num_layers);
  for (size_t i = 0; i < counts.size(); ++i) {
    std::ranges::copy(counts[i].counts, std::span(sums).subspan(i * num_layers).begin());
  }
  RETURN_IF_ERROR(communicator.AllReduceSum(std::span<double>(sums)));
  for (size_t i = 0; i < mixing.size(); ++i) {
    const std::span<const double> row = std::span(sums).subspan(i * num_layers, num_layers);
    const double total = std::max(std::accumulate(row.begin(), row.end(), 0.0), 1.0);
    v1::LayerChoices& layer = shares.emplace_back();
    layer.set_layer(mixing[i]);
    for (const double count : row) layer.add_shares(count / total);
  }
  return shares;
}

}  // namespace braid
