#include "retrieval/contriever_weights.h"

#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_digest.h"
#include "base/status_macros.h"

namespace braid {
namespace {

using Shape = std::vector<int64_t>;

void AddPair(const std::string& stem, const Shape& weight, std::vector<TensorInfo>* tensors) {
  tensors->push_back({stem + ".weight", DType::kF32, weight});
  tensors->push_back({stem + ".bias", DType::kF32, {weight[0]}});
}

// Returns the name in ContrieverTensors of a stored tensor; "" for one that is not used.
std::string CanonicalName(std::string name) {
  if (name.starts_with("bert.")) name.erase(0, 5);
  if (name.starts_with("pooler.") || name.starts_with("cls.") ||
      absl::EndsWith(name, ".position_ids")) {
    return "";
  }
  const auto rename = [&name](std::string_view from, std::string_view to) {
    if (name.ends_with(from)) name.replace(name.size() - from.size(), from.size(), to);
  };
  rename("LayerNorm.gamma", "LayerNorm.weight");
  rename("LayerNorm.beta", "LayerNorm.bias");
  return name;
}

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status WeightsError(const std::filesystem::path& directory, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(directory.string(), ": ", problem));
}

absl::StatusOr<std::map<std::string, std::string>> NameTensors(
    const WeightFiles& files, const std::filesystem::path& directory) {
  std::map<std::string, std::string> stored;
  for (const std::string& name : files.names()) {
    const std::string canonical = CanonicalName(name);
    if (canonical.empty()) continue;
    const auto [found, added] = stored.emplace(canonical, name);
    if (added) continue;
    return WeightsError(directory, absl::StrCat("got tensor ", canonical, " twice, as ",
                                                found->second, " and as ", name));
  }
  return stored;
}

absl::Status CheckTensor(const TensorInfo& expected, const TensorInfo& got,
                         const std::filesystem::path& directory) {
  const auto wrong = [&](const std::string& what, const std::string& wanted) {
    return WeightsError(directory,
                        absl::StrCat("tensor ", got.name, ": got ", what, ", expected ", wanted));
  };
  if (got.shape != expected.shape) {
    return wrong("shape " + ShapeText(got.shape), ShapeText(expected.shape) + " by config.json");
  }
  const bool readable =
      got.dtype == DType::kF32 || got.dtype == DType::kF16 || got.dtype == DType::kBF16;
  if (readable) return absl::OkStatus();
  return wrong("elements " + std::string(DTypeName(got.dtype)), "F32, F16 or BF16");
}

}  // namespace

std::vector<TensorInfo> ContrieverTensors(const ContrieverConfig& config) {
  const int64_t d = config.hidden_size, f = config.intermediate_size;
  std::vector<TensorInfo> tensors = {
      {"embeddings.word_embeddings.weight", DType::kF32, {config.vocab_size, d}},
      {"embeddings.position_embeddings.weight", DType::kF32, {config.max_position_embeddings, d}},
      {"embeddings.token_type_embeddings.weight", DType::kF32, {config.type_vocab_size, d}}};
  AddPair("embeddings.LayerNorm", {d}, &tensors);
  for (int32_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = absl::StrCat("encoder.layer.", i, ".");
    for (const char* projection : {"query", "key", "value"}) {
      AddPair(layer + "attention.self." + projection, {d, d}, &tensors);
    }
    AddPair(layer + "attention.output.dense", {d, d}, &tensors);
    AddPair(layer + "attention.output.LayerNorm", {d}, &tensors);
    AddPair(layer + "intermediate.dense", {f, d}, &tensors);
    AddPair(layer + "output.dense", {d, f}, &tensors);
    AddPair(layer + "output.LayerNorm", {d}, &tensors);
  }
  return tensors;
}

absl::StatusOr<ContrieverWeights> ContrieverWeights::Open(const std::filesystem::path& directory,
                                                          const ContrieverConfig& config) {
  ASSIGN_OR_RETURN(WeightFiles files, WeightFiles::Open(directory));
  ASSIGN_OR_RETURN(auto stored, NameTensors(files, directory));
  const std::vector<TensorInfo> expected = ContrieverTensors(config);
  for (const TensorInfo& tensor : expected) {
    const auto found = stored.find(tensor.name);
    if (found == stored.end()) {
      return WeightsError(directory,
                          absl::StrCat("no tensor ", tensor.name, ", expected one of shape ",
                                       ShapeText(tensor.shape), " by config.json"));
    }
    RETURN_IF_ERROR(CheckTensor(tensor, *files.Find(found->second), directory));
  }
  if (stored.size() == expected.size()) {
    return ContrieverWeights(std::move(files), std::move(stored));
  }
  for (const TensorInfo& tensor : expected) stored.erase(tensor.name);
  return WeightsError(
      directory, absl::StrCat("got ", stored.size(), " tensors that are none of a BERT of ",
                              config.num_hidden_layers, " layers, such as ", stored.begin()->second,
                              "; expected those of config.json"));
}

absl::Status ContrieverWeights::Read(const std::string& name, std::span<float> values) const {
  return files_.Read(stored_.at(name), values);
}

absl::StatusOr<std::string> ContrieverWeights::Digest() const {
  FieldDigest digest;
  for (const auto& [name, stored] : stored_) {
    const TensorInfo& tensor = *files_.Find(stored);
    ASSIGN_OR_RETURN(const std::string_view bytes, files_.Bytes(stored));
    digest.Add(name);
    digest.Add(DTypeName(tensor.dtype));
    digest.Add(ShapeText(tensor.shape));
    digest.Add(bytes);
  }
  return digest.Hex();
}

}  // namespace braid
