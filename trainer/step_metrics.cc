#include "trainer/step_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/process_memory.h"
#include "model/config/model_flops.h"

namespace braid {
namespace {

constexpr double kMebibyte = 1 << 20;

}  // namespace

v1::StepTimes StepTimesOf(const PhaseSeconds& spent, double step_seconds) {
  const auto of = [&](Phase phase) { return spent[static_cast<size_t>(phase)]; };
  v1::StepTimes times;
  times.set_data(of(Phase::kData));
  times.set_router(of(Phase::kRouter));
  times.set_merge(of(Phase::kMerge));
  times.set_ffn(of(Phase::kFfn));
  times.set_attention(of(Phase::kAttention));
  times.set_head(of(Phase::kHead));
  times.set_optimizer(of(Phase::kOptimizer));
  times.set_communication(of(Phase::kCommunication));
  times.set_checkpoint(of(Phase::kCheckpoint));
  const double named = std::accumulate(spent.begin(), spent.end(), 0.0) - times.checkpoint();
  times.set_other(std::max(0.0, step_seconds - named));
  return times;
}

void StepMeter::Complete(const v1::ModelConfig& model, v1::StepMetrics* metrics) const {
  metrics->set_perplexity(std::exp(metrics->loss()));
  const double flops = FlopsPerToken(model).total() * metrics->tokens_per_second();
  metrics->set_gflops(flops / 1e9);
  if (peak_gflops_ > 0) {
    metrics->set_model_flops_utilization(metrics->gflops() / (world_size_ * peak_gflops_));
  }
  *metrics->mutable_times() = StepTimesOf(TakePhaseSeconds(), metrics->step_seconds());
  const ProcessMemory memory = ReadProcessMemory();
  metrics->set_resident_mb(static_cast<double>(memory.resident_bytes) / kMebibyte);
  metrics->set_peak_resident_mb(static_cast<double>(memory.peak_resident_bytes) / kMebibyte);
}

}  // namespace braid
