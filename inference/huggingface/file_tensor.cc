#include "inference/huggingface/file_tensor.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "inference/huggingface/config_json.h"

namespace braid {
namespace {

constexpr std::string_view kTransposed = "weight_t";
// Rows and columns of a block that fits into the cache.
constexpr int64_t kBlock = 32;

void TransposeBlock(const float* from, int64_t rows, int64_t columns, int64_t row, int64_t column,
                    float* to) {
  const int64_t last_row = std::min(row + kBlock, rows);
  const int64_t last_column = std::min(column + kBlock, columns);
  for (int64_t i = row; i < last_row; ++i) {
    for (int64_t j = column; j < last_column; ++j) to[j * rows + i] = from[i * columns + j];
  }
}

// Mixtral's names of the three matrices of an expert.
constexpr std::pair<std::string_view, std::string_view> kExpertMatrices[] = {
    {"mlp.experts.gate_proj.weight", "w1"},
    {"mlp.experts.down_proj.weight", "w2"},
    {"mlp.experts.up_proj.weight", "w3"}};

// Returns the tensors of Mixtral's layout that hold a tensor of ours.
std::vector<FileTensor> MixtralTensors(FileTensor tensor) {
  if (tensor.name.ends_with("mlp.router.weight")) {
    tensor.name = absl::StrReplaceAll(tensor.name, {{"mlp.router", "block_sparse_moe.gate"}});
    return {tensor};
  }
  const auto matrix = std::ranges::find_if(
      kExpertMatrices, [&](const auto& names) { return tensor.name.ends_with(names.first); });
  if (matrix == std::end(kExpertMatrices)) return {tensor};
  const std::string layer = tensor.name.substr(0, tensor.name.size() - matrix->first.size());
  const int64_t experts = tensor.shape.front(), size = tensor.size / experts;
  std::vector<FileTensor> parts;
  for (int64_t e = 0; e < experts; ++e) {
    parts.push_back({.name = absl::StrCat(layer, "block_sparse_moe.experts.", e, ".",
                                          std::string(matrix->second), ".weight"),
                     .shape = {tensor.shape[1], tensor.shape[2]},
                     .transposed = tensor.transposed,
                     .first = e * size,
                     .size = size});
  }
  return parts;
}

}  // namespace

std::vector<FileTensor> FileTensorsOf(const v1::ModelConfig& resolved,
                                      const ParameterSpec& parameter) {
  FileTensor tensor{.name = parameter.name,
                    .shape = parameter.shape,
                    .transposed = parameter.name.ends_with(kTransposed),
                    .first = 0,
                    .size = parameter.size};
  if (tensor.transposed) {
    BRAID_CHECK(tensor.shape.size() >= 2) << parameter.name;
    tensor.name.resize(tensor.name.size() - 2);
    std::swap(tensor.shape.end()[-1], tensor.shape.end()[-2]);
  }
  if (!IsMixtral(resolved)) return {tensor};
  return MixtralTensors(std::move(tensor));
}

std::vector<FileTensor> FileTensorsOf(const v1::ModelConfig& resolved,
                                      const std::vector<ParameterSpec>& layout) {
  std::vector<FileTensor> tensors;
  for (const ParameterSpec& parameter : layout) {
    for (FileTensor& tensor : FileTensorsOf(resolved, parameter)) {
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

void TransposeMatrices(std::span<const float> from, int64_t rows, int64_t columns,
                       std::span<float> to) {
  const auto size = static_cast<size_t>(rows * columns);
  BRAID_CHECK(from.size() == to.size() && size > 0 && from.size() % size == 0)
      << from.size() << " " << to.size() << " " << rows << " " << columns;
  for (size_t begin = 0; begin < from.size(); begin += size) {
    for (int64_t row = 0; row < rows; row += kBlock) {
      for (int64_t column = 0; column < columns; column += kBlock) {
        TransposeBlock(&from[begin], rows, columns, row, column, &to[begin]);
      }
    }
  }
}

}  // namespace braid
