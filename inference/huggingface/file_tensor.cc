#include "inference/huggingface/file_tensor.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "inference/huggingface/config_json.h"
#include "model/config/family_config.h"
#include "model/config/head_config.h"

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

// GPT-2's names of parameters within a layer. Its matrices have inputs as rows, which are the
// columns of ours but for "weight_t".
constexpr std::pair<std::string_view, std::string_view> kGpt2Modules[] = {
    {"input_layernorm.", "ln_1."},
    {"post_attention_layernorm.", "ln_2."},
    {"self_attn.o_proj.", "attn.c_proj."},
    {"mlp.up_proj.", "mlp.c_fc."},
    {"mlp.down_proj.", "mlp.c_proj."}};
constexpr std::string_view kGpt2Attention[] = {"self_attn.q_proj.", "self_attn.k_proj.",
                                               "self_attn.v_proj."};

// Returns the tensor of a parameter of a layer of GPT-2, `name` without the layer's prefix.
FileTensor Gpt2LayerTensor(const std::string& layer, const std::string& name, FileTensor tensor) {
  const std::string_view kind = std::string_view(name).substr(name.rfind('.') + 1);
  if (kind == "weight" && tensor.shape.size() == 2) {
    tensor.transposed = true;
    std::swap(tensor.shape[0], tensor.shape[1]);
  }
  for (int64_t i = 0; i < 3; ++i) {
    if (!name.starts_with(kGpt2Attention[i])) continue;
    tensor.name = absl::StrCat(layer, "attn.c_attn.", std::string(kind));
    tensor.shape.back() *= 3;
    tensor.place = i * tensor.size;
    return tensor;
  }
  const auto module = std::ranges::find_if(
      kGpt2Modules, [&](const auto& names) { return name.starts_with(names.first); });
  BRAID_CHECK(module != std::end(kGpt2Modules)) << name;
  tensor.name = absl::StrCat(layer, std::string(module->second),
                             std::string(kind == "weight_t" ? "weight" : kind));
  return tensor;
}

// Returns the tensor of GPT-2's layout that holds a parameter.
FileTensor Gpt2Tensor(const ParameterSpec& parameter, bool bare) {
  const std::string prefix = bare ? "" : "transformer.";
  const std::string& name = parameter.name;
  const FileTensor tensor{
      .name = name, .shape = parameter.shape, .first = 0, .size = parameter.size};
  constexpr std::string_view kLayers = "model.layers.";
  if (name.find("layer_mixing.") != std::string::npos) return tensor;
  if (name.starts_with(kLayers)) {
    const size_t end = name.find('.', kLayers.size()) + 1;
    const std::string layer =
        absl::StrCat(prefix, "h.", name.substr(kLayers.size(), end - kLayers.size()));
    return Gpt2LayerTensor(layer, name.substr(end), tensor);
  }
  FileTensor whole = tensor;
  if (name == kLabelHead) return whole;
  whole.name = absl::StrCat(prefix, absl::StrReplaceAll(name, {{"model.embed_tokens.", "wte."},
                                                               {"model.embed_positions.", "wpe."},
                                                               {"model.norm.", "ln_f."}}));
  return whole;
}

}  // namespace

std::vector<FileTensor> FileTensorsOf(const v1::ModelConfig& resolved,
                                      const ParameterSpec& parameter, bool bare) {
  if (IsGpt2(resolved)) return {Gpt2Tensor(parameter, bare)};
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
                                      const std::vector<ParameterSpec>& layout, bool bare) {
  std::vector<FileTensor> tensors;
  for (const ParameterSpec& parameter : layout) {
    for (FileTensor& tensor : FileTensorsOf(resolved, parameter, bare)) {
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
