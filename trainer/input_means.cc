#include "trainer/input_means.h"

#include <algorithm>

#include "base/check.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"

namespace braid {
namespace {

constexpr double kLeastShare = 0.01;

}  // namespace

size_t NumInputMeans(const v1::ModelConfig& resolved) {
  if (!resolved.routing().token().centered_input()) return 0;
  return MoeLayers(resolved).size() * static_cast<size_t>(resolved.d_model());
}

void MoveInputMeans(std::span<const double> batch, int64_t step, LanguageModel& model) {
  if (batch.empty() || IsPartial(model.finetuning())) return;
  // Specs of earlier versions may count dense steps where experts trained from the start.
  const auto batches = static_cast<double>(std::max<int64_t>(step, 0) + 1);
  const double share = std::max(1.0 / batches, kLeastShare);
  size_t next = 0;
  for (Parameter& parameter : model.parameters()) {
    if (!parameter.name.ends_with(kInputMean)) continue;
    for (float& mean : parameter.value) {
      BRAID_CHECK(next < batch.size()) << parameter.name;
      const double value = mean;
      mean = static_cast<float>(value + share * (batch[next++] - value));
    }
  }
  BRAID_CHECK(next == batch.size()) << next << " means for " << batch.size();
}

}  // namespace braid
