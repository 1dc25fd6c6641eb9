#include "trainer/step_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>

#include "base/process_memory.h"
#include "model/config/document_config.h"
#include "model/config/inference_experts.h"
#include "model/config/segment_starts.h"
#include "runs/batch_spec.h"

namespace braid {
namespace {

constexpr double kMebibyte = 1 << 20;

// A position sees the keys before it and itself. Half a key less makes a whole sequence L / 2, as
// in ModelFlops.
double MeanVisibleKeys(const Batch& batch, const v1::ModelConfig& model) {
  const auto positions = static_cast<int64_t>(batch.inputs.size());
  const bool documents = model.attention_mask() == v1::DOCUMENT;
  if (positions == 0 || (batch.first_visible.empty() && !documents)) {
    return 0.5 * model.sequence_length();
  }
  const int64_t length = positions / batch.batch_size;
  double keys = 0;
  int64_t first = 0;  // that the position sees
  for (int64_t i = 0; i < positions; ++i) {
    const int64_t t = i % length;
    if (t == 0 || (documents && batch.inputs[i - 1] == model.document_end())) first = t;
    if (!batch.first_visible.empty()) first = std::max<int64_t>(first, batch.first_visible[i]);
    keys += static_cast<double>(t - first) + 0.5;
  }
  return keys / static_cast<double>(positions);
}

double TargetShare(const Batch& batch) {
  if (batch.first_visible.empty()) return 1;
  const auto counted = std::ranges::count_if(batch.targets, [](int32_t t) { return t >= 0; });
  return static_cast<double>(counted) / static_cast<double>(batch.targets.size());
}

// Returns the segments per position, or nothing if they do not depend on the batch.
std::optional<double> MeanSegments(const Batch& batch, const v1::ModelConfig& model) {
  const auto positions = static_cast<int64_t>(batch.inputs.size());
  if (positions == 0 || !CutsAtDocuments(model.routing())) return std::nullopt;
  const int64_t length = positions / batch.batch_size;
  size_t count = 0;
  for (int64_t b = 0; b < batch.batch_size; ++b) {
    SegmentStarts segments(model);
    segments.Append(std::span(batch.inputs).subspan(b * length, length));
    count += segments.starts().size();
  }
  return static_cast<double>(count) / static_cast<double>(positions);
}

}  // namespace

v1::StepMetrics MetricsOfStep(const GradientPass& pass, const TrainingState& before) {
  v1::StepMetrics metrics;
  metrics.set_step(before.step + 1);
  metrics.set_loss(pass.loss);
  metrics.set_loss_after_first_segment(pass.loss_after_first_segment);
  metrics.set_gradient_norm(pass.gradient_norm);
  metrics.set_balance_loss(pass.balance_loss);
  metrics.set_consistency(pass.divergence);
  metrics.set_mean_active_experts(pass.active_experts);
  metrics.set_l1_coefficient(before.gate_penalty);
  for (const Parameter& parameter : before.model->parameters()) {
    if (!parameter.name.ends_with(".dropout.logit")) continue;
    metrics.add_dropout_rates(1 / (1 + std::exp(-double{parameter.value[0]})));
  }
  metrics.set_num_tokens(before.num_tokens + pass.num_tokens);
  metrics.set_upcycled(before.upcycled);
  return metrics;
}

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

DataMeans MeansOf(const Batch& batch, const GradientPass& pass, const v1::ModelConfig& model) {
  DataMeans means = {.visible_keys = MeanVisibleKeys(batch, model),
                     .target_share = TargetShare(batch),
                     .segments = MeanSegments(batch, model)};
  if (HasVaryingExperts(model) && pass.num_tokens > 0) means.active_experts = pass.active_experts;
  return means;
}

double MeasuredTokens(const v1::RunSpec& spec, const RankBatch& work, const GradientPass& pass) {
  const bool supervised = !work.batch.first_visible.empty() && pass.num_tokens > 0;
  return static_cast<double>(supervised ? BatchScheduleOf(spec).At(work.step) *
                                              spec.model().sequence_length()
                                        : pass.num_tokens);
}

void StepMeter::Complete(const ModelFlops& flops, v1::StepMetrics* metrics) const {
  metrics->set_perplexity(std::exp(metrics->loss()));
  metrics->set_gflops(flops.total() * metrics->tokens_per_second() / 1e9);
  if (peak_gflops_ > 0) {
    metrics->set_model_flops_utilization(metrics->gflops() / (world_size_ * peak_gflops_));
  }
  *metrics->mutable_times() = StepTimesOf(TakePhaseSeconds(), metrics->step_seconds());
  const ProcessMemory memory = ReadProcessMemory();
  metrics->set_resident_mb(static_cast<double>(memory.resident_bytes) / kMebibyte);
  metrics->set_peak_resident_mb(static_cast<double>(memory.peak_resident_bytes) / kMebibyte);
}

}  // namespace braid
