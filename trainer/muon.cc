#include "trainer/muon.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/status_macros.h"
#include "model/config/finetuning_config.h"
#include "model/config/shard.h"
#include "model/kernels/orthogonalize.h"
#include "model/kernels/phase_times.h"

namespace braid {
namespace {

// The size of an orthogonal update relative to AdamW's, whose elements are about 0.2 (arXiv
// 2502.16982, section 2.2).
double UpdateScale(const MuonMatrices& m) {
  return 0.2 * std::sqrt(static_cast<double>(std::max(m.rows, m.columns)));
}

Shard Within(const MuonMatrices& m, Shard range) {
  const size_t begin = std::max(m.offset, range.begin);
  return {begin, std::max(begin, std::min(m.end(), range.end))};
}

// Returns the whole matrices of `m` that overlap `part`, a range within m.
Shard WholeMatrices(const MuonMatrices& m, Shard part) {
  const size_t size = m.matrix_size();
  const size_t first = (part.begin - m.offset) / size;
  const size_t last = (part.end - m.offset + size - 1) / size;
  return {m.offset + first * size, m.offset + last * size};
}

// Computes m = momentum * m + g and replaces the gradient by g + momentum * m. The gradients are
// not needed any more in this step, so MuonStep keeps all intermediate values in their place.
void AddMomenta(double momentum, double factor, const std::vector<MuonMatrices>& matrices,
                TrainingState& state) {
  const ScopedPhase phase(Phase::kOptimizer);
  const auto mu = static_cast<float>(momentum), f = static_cast<float>(factor);
  for (const MuonMatrices& matrix : matrices) {
    const Shard part = Within(matrix, state.moments);
    float* const gradients = state.model->gradients().data() + part.begin;
    float* const m = state.m.data() + (part.begin - state.moments.begin);
    const auto size = static_cast<int64_t>(part.size());
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < size; ++i) {
      const float g = f * gradients[i];
      m[i] = mu * m[i] + g;
      gradients[i] = g + mu * m[i];
    }
  }
}

void Apply(double keep, double scale, std::span<const float> update, std::span<float> values) {
  const auto k = static_cast<float>(keep), s = static_cast<float>(scale);
  const auto size = static_cast<int64_t>(values.size());
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < size; ++i) values[i] = k * values[i] - s * update[i];
}

// Returns the matrices that a boundary between two shards cuts, ascending and each once. The list
// follows from shapes alone, so all ranks exchange buffers of the same size without a message about
// them.
std::vector<Shard> CutMatrices(const std::vector<MuonMatrices>& matrices, size_t size,
                               int world_size) {
  std::vector<Shard> cut;
  for (int rank = 1; rank < world_size; ++rank) {
    const size_t boundary = ShardOf(size, rank, world_size).begin;
    for (const MuonMatrices& m : matrices) {
      if (boundary < m.offset || boundary >= m.end()) continue;
      const Shard whole = WholeMatrices(m, {boundary, boundary + 1});
      const bool known = !cut.empty() && cut.back() == whole;
      if (whole.begin < boundary && !known) cut.push_back(whole);
    }
  }
  return cut;
}

// Gives every rank the whole of the matrices that lie in several shards: each rank adds its own
// part to zeros, which changes no bit.
absl::Status ExchangeGradients(const std::vector<Shard>& cut, Shard own, std::span<float> gradients,
                               Communicator& communicator) {
  size_t total = 0;
  for (const Shard& matrix : cut) total += matrix.size();
  std::vector<float> buffer(total, 0.0f);
  size_t at = 0;
  for (const Shard& matrix : cut) {
    for (size_t i = matrix.begin; i < matrix.end; ++i, ++at) {
      if (i >= own.begin && i < own.end) buffer[at] = gradients[i];
    }
  }
  const ScopedPhase phase(Phase::kCommunication);
  RETURN_IF_ERROR(communicator.AllReduceSum(std::span<float>(buffer)));
  auto next = buffer.begin();
  for (const Shard& matrix : cut) {
    const auto size = static_cast<int64_t>(matrix.size());
    std::copy_n(next, size, gradients.begin() + static_cast<int64_t>(matrix.begin));
    next += size;
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<MuonMatrices> MuonMatricesOf(const v1::ModelConfig& resolved,
                                         const v1::Finetuning& finetuning) {
  std::vector<MuonMatrices> matrices;
  for (const ParameterSpec& spec : FinetunedLayout(resolved, finetuning)) {
    if (!IsHiddenMatrix(spec)) continue;
    const int64_t rows = spec.shape.end()[-2], columns = spec.shape.end()[-1];
    matrices.push_back({.offset = static_cast<size_t>(spec.gradient_offset),
                        .count = spec.size / (rows * columns),
                        .rows = rows,
                        .columns = columns,
                        .rate_factor = spec.rate_factor});
  }
  std::ranges::sort(matrices, {}, &MuonMatrices::offset);
  return matrices;
}

absl::Status MuonStep(const MuonSettings& settings, double learning_rate, double gradient_factor,
                      const std::vector<MuonMatrices>& matrices, TrainingState& state,
                      Communicator& communicator) {
  const std::span<float> gradients = state.model->gradients();
  const std::span<float> values = state.model->trained_values();
  const Shard own = state.moments;
  AddMomenta(settings.momentum, gradient_factor, matrices, state);
  // Exchanged after the momentum is added, since each rank has only its own part of the momentum.
  if (state.sharded) {
    const auto cut = CutMatrices(matrices, gradients.size(), communicator.world_size());
    RETURN_IF_ERROR(ExchangeGradients(cut, own, gradients, communicator));
  }
  const ScopedPhase phase(Phase::kOptimizer);
  // A matrix must be whole to be made orthogonal. Each rank that owns a part of it does so and
  // applies its own part: that repeats some work at the boundaries of shards, but needs no second
  // exchange and gives the bits of REPLICATED.
  for (const MuonMatrices& m : matrices) {
    const Shard part = Within(m, own);
    if (part.size() == 0) continue;
    const Shard whole = WholeMatrices(m, part);
    Orthogonalize(gradients.subspan(whole.begin, whole.size()), m.rows, m.columns);
    const double rate = learning_rate * m.rate_factor;
    Apply(1 - rate * settings.weight_decay, rate * UpdateScale(m),
          gradients.subspan(part.begin, part.size()), values.subspan(part.begin, part.size()));
  }
  return absl::OkStatus();
}

}  // namespace braid
