#include "trainer/expert_similarity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "model/adapter_merge.h"
#include "model/config/finetuning_config.h"
#include "model/config/parameter_layout.h"

namespace braid {
namespace {

// Independent partial sums, so that additions do not wait for one another.
constexpr size_t kLanes = 8;
// Elements of every expert that are added at a time; their sums stay in the first-level cache.
constexpr size_t kExpertSimilarityBlock = 1024;

// Returns the dot product of two vectors of equal length.
double DotProduct(std::span<const float> a, std::span<const float> b) {
  std::array<double, kLanes> sums = {};
  const size_t whole = a.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
    }
  }
  double total = 0;
  for (size_t i = whole; i < a.size(); ++i) total += static_cast<double>(a[i]) * b[i];
  for (double sum : sums) total += sum;
  return total;
}

// Returns 1 / length of each expert's vector, 0 for a zero vector.
std::vector<double> InverseNorms(std::span<const std::span<const float>> matrices, size_t experts) {
  std::vector<double> norms(experts);
  for (const std::span<const float> matrix : matrices) {
    const size_t size = matrix.size() / experts;
    for (size_t e = 0; e < experts; ++e) {
      const std::span<const float> part = matrix.subspan(e * size, size);
      norms[e] += DotProduct(part, part);
    }
  }
  for (double& norm : norms) norm = norm == 0 ? 0 : 1 / std::sqrt(norm);
  return norms;
}

// Returns the squared length of this matrix's part of the sum of all unit vectors.
double SquaredSumOfUnits(std::span<const float> matrix, std::span<const double> scales) {
  const size_t size = matrix.size() / scales.size();
  std::array<double, kExpertSimilarityBlock> sums;
  double total = 0;
  for (size_t begin = 0; begin < size; begin += kExpertSimilarityBlock) {
    const size_t count = std::min(kExpertSimilarityBlock, size - begin);
    std::fill_n(sums.begin(), count, 0.0);
    for (size_t e = 0; e < scales.size(); ++e) {
      const float* const values = matrix.data() + e * size + begin;
      for (size_t i = 0; i < count; ++i) sums[i] += scales[e] * values[i];
    }
    for (size_t i = 0; i < count; ++i) total += sums[i] * sums[i];
  }
  return total;
}

void CheckEqualParts(std::span<const std::span<const float>> matrices, size_t experts) {
  for (const std::span<const float> matrix : matrices) {
    BRAID_CHECK(matrix.size() % experts == 0) << matrix.size() << " " << experts;
  }
}

}  // namespace

std::vector<std::span<const float>> ExpertMatrices(LanguageModel& model, int layer) {
  const std::string prefix = absl::StrCat(LayerPrefix(layer), "mlp.experts.");
  std::vector<std::span<const float>> matrices;
  for (const Parameter& parameter : model.parameters()) {
    const bool adapter = absl::StrContains(parameter.name, ".lora_");
    if (parameter.name.starts_with(prefix) && !adapter) matrices.push_back(parameter.value);
  }
  return matrices;
}

double ExpertCosine(LanguageModel& model, int layer) {
  const int num_experts = model.config().routing().num_experts();
  std::map<std::string, std::span<const float>> values;
  for (const Parameter& parameter : model.parameters()) values[parameter.name] = parameter.value;
  std::vector<std::span<const float>> matrices = ExpertMatrices(model, layer);
  std::vector<std::vector<float>> merged;
  for (const AdapterSpec& adapter : AdaptersOf(model.config(), model.finetuning())) {
    if (adapter.layer != layer || adapter.experts == 0) continue;
    const std::span<const float> matrix = values.at(adapter.matrix);
    std::vector<float>& sum = merged.emplace_back(matrix.begin(), matrix.end());
    MergeAdapter(adapter, AdapterScale(model.finetuning().lora()), values.at(adapter.a),
                 values.at(adapter.b), sum);
    const auto is_matrix = [&](const auto& other) { return other.data() == matrix.data(); };
    *std::ranges::find_if(matrices, is_matrix) = sum;
  }
  return MeanPairwiseCosine(matrices, num_experts);
}

// For unit vectors u_i: |sum u_i|^2 = sum |u_i|^2 + 2 sum over pairs <u_i, u_j>. So the mean over
// all pairs follows from the length of one sum, in E instead of E^2 / 2 passes over the experts.
double MeanPairwiseCosine(std::span<const std::span<const float>> matrices, int num_experts) {
  const size_t experts = static_cast<size_t>(num_experts);
  CheckEqualParts(matrices, experts);
  if (num_experts == 1) return 1;
  const std::vector<double> scales = InverseNorms(matrices, experts);
  double squared = 0;
  for (const std::span<const float> matrix : matrices) {
    squared += SquaredSumOfUnits(matrix, scales);
  }
  const auto zeros = std::count(scales.begin(), scales.end(), 0.0);
  const auto units = static_cast<double>(num_experts - zeros);
  return (squared - units) / (static_cast<double>(num_experts) * (num_experts - 1));
}

std::vector<double> PairwiseCosines(std::span<const std::span<const float>> matrices,
                                    int num_experts) {
  const size_t experts = static_cast<size_t>(num_experts);
  CheckEqualParts(matrices, experts);
  const std::vector<double> scales = InverseNorms(matrices, experts);
  std::vector<double> cosines(experts * experts, 1.0);
  for (size_t a = 0; a < experts; ++a) {
    for (size_t b = 0; b < a; ++b) {
      double product = 0;
      for (const std::span<const float> matrix : matrices) {
        const size_t size = matrix.size() / experts;
        product += DotProduct(matrix.subspan(a * size, size), matrix.subspan(b * size, size));
      }
      cosines[a * experts + b] = cosines[b * experts + a] = product * scales[a] * scales[b];
    }
  }
  return cosines;
}

}  // namespace braid
