#include "inference/huggingface/adapter_tensors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "model/config/family_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/head_config.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kPeftPrefix[] = "base_model.model.";

// The matrices of a layer of GPT-2 with the targets whose rows they hold one after the other.
struct Gpt2Module {
  std::string name;
  std::vector<std::string> targets;
};

const std::vector<Gpt2Module>& Gpt2AdapterModules() {
  static const auto* const modules = new std::vector<Gpt2Module>{{"attn.c_attn", {"q", "k", "v"}},
                                                                 {"attn.c_proj", {"o"}},
                                                                 {"mlp.c_fc", {"up"}},
                                                                 {"mlp.c_proj", {"down"}}};
  return *modules;
}

// A module of PEFT that holds an adapter, and the rows of its outputs that are the adapter's.
struct ModulePlace {
  std::string module;  // as in target_modules
  std::string path;    // the beginning of the names of its tensors, with a dot
  int64_t parts = 1;
  int64_t part = 0;
};

ModulePlace PlaceOfAdapter(const v1::ModelConfig& model, const AdapterSpec& spec) {
  if (!IsGpt2(model)) {
    const std::string path = spec.a.substr(0, spec.a.rfind("lora_A."));
    return {.module = spec.target + "_proj", .path = absl::StrCat(kPeftPrefix, path)};
  }
  for (const Gpt2Module& module : Gpt2AdapterModules()) {
    const auto found = std::ranges::find(module.targets, spec.target);
    if (found == module.targets.end()) continue;
    return {module.name,
            absl::StrCat(kPeftPrefix, "transformer.h.", spec.layer, ".", module.name, "."),
            std::ssize(module.targets), found - module.targets.begin()};
  }
  BRAID_CHECK(false) << spec.target;
  return {};
}

using TensorsByName = std::map<std::string, const AdapterTensor*>;

// Returns how many times its rank an adapter file needs: 1 unless several adapters with different A
// share a module.
int64_t RanksInFile(const v1::ModelConfig& model, std::span<const AdapterSpec> specs,
                    const TensorsByName& own) {
  std::map<std::string, std::vector<const AdapterTensor*>> inputs;
  for (const AdapterSpec& spec : specs) {
    inputs[PlaceOfAdapter(model, spec).path].push_back(own.at(spec.a));
  }
  for (const auto& [path, all] : inputs) {
    const bool equal = std::ranges::all_of(
        all, [&](const AdapterTensor* a) { return a->value == all.front()->value; });
    if (!equal) return std::ssize(all);
  }
  return 1;
}

// Copies a [rows, columns] block of `from`, whole, to (row, column) of `to`.
void CopyBlock(const AdapterTensor& from, int64_t row, int64_t column, AdapterTensor* to) {
  const int64_t rows = from.shape[0], columns = from.shape[1], width = to->shape[1];
  for (int64_t i = 0; i < rows; ++i) {
    std::ranges::copy(std::span(from.value).subspan(i * columns, columns),
                      to->value.begin() + (row + i) * width + column);
  }
}

// Returns the tensor `name` of `file`, which is appended, with zeros, if it is not there.
AdapterTensor* TensorIn(const std::string& name, std::vector<int64_t> shape, AdapterFile* file) {
  const auto found = std::ranges::find(file->tensors, name, &AdapterTensor::name);
  if (found != file->tensors.end()) return &*found;
  const auto size = static_cast<size_t>(shape[0] * shape[1]);
  file->tensors.push_back({name, std::move(shape), std::vector<float>(size)});
  return &file->tensors.back();
}

std::string PeftShape(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// The part of a file's tensor that holds what is trained.
struct TensorPart {
  std::string name;
  std::vector<int64_t> shape;  // that of the whole tensor
  int64_t first = 0;
};

// Returns the parts by the names of the parameters.
std::map<std::string, TensorPart> PeftPartsOf(const LanguageModel& model) {
  std::map<std::string, TensorPart> parts;
  const int64_t rank = model.finetuning().lora().rank();
  for (const AdapterSpec& spec : AdaptersOf(model.config(), model.finetuning())) {
    const ModulePlace place = PlaceOfAdapter(model.config(), spec);
    std::vector<int64_t> b_shape = spec.b_shape(rank);
    const int64_t first = place.part * spec.out * rank;
    b_shape.front() *= place.parts;
    parts[spec.a] = {place.path + "lora_A.weight", spec.a_shape(rank), 0};
    parts[spec.b] = {place.path + "lora_B.weight", b_shape, first};
  }
  return parts;
}

// Returns the targets of a module, "BLOCK.MODULE"; none for one that has no adapters.
std::vector<std::string> TargetsOf(const v1::ModelConfig& model, const std::string& block,
                                   const std::string& module) {
  if (!IsGpt2(model)) {
    if (!module.ends_with("_proj")) return {};
    return {module.substr(0, module.size() - 5)};
  }
  const auto found =
      std::ranges::find(Gpt2AdapterModules(), absl::StrCat(block, ".", module), &Gpt2Module::name);
  return found == Gpt2AdapterModules().end() ? std::vector<std::string>() : found->targets;
}

}  // namespace

AdapterFile AdapterFileOf(const v1::ModelConfig& resolved, const v1::Finetuning& finetuning,
                          std::span<const AdapterTensor> own) {
  const std::vector<AdapterSpec> specs = AdaptersOf(resolved, finetuning);
  TensorsByName by_name;
  for (const AdapterTensor& tensor : own) by_name[tensor.name] = &tensor;
  AdapterFile file{finetuning.lora(), {}, {}};
  const int64_t times = RanksInFile(resolved, specs, by_name), rank = file.lora.rank();
  const auto factor = static_cast<double>(times);
  file.lora.set_rank(static_cast<int32_t>(times * rank));
  file.lora.set_alpha(file.lora.alpha() * (file.lora.rs_lora() ? std::sqrt(factor) : factor));
  std::map<std::string, int64_t> used;  // ranks of a module that are filled, by its path
  for (const AdapterSpec& spec : specs) {
    const ModulePlace place = PlaceOfAdapter(resolved, spec);
    if (!std::ranges::count(file.modules, place.module)) file.modules.push_back(place.module);
    const int64_t first_rank = times > 1 ? rank * used[place.path]++ : 0;
    CopyBlock(*by_name.at(spec.a), first_rank, 0,
              TensorIn(place.path + "lora_A.weight", {times * rank, spec.in}, &file));
    CopyBlock(
        *by_name.at(spec.b), place.part * spec.out, first_rank,
        TensorIn(place.path + "lora_B.weight", {place.parts * spec.out, times * rank}, &file));
  }
  if (const auto head = by_name.find(kLabelHead); head != by_name.end()) {
    CopyBlock(*head->second, 0, 0, TensorIn(kPeftLabelHead, head->second->shape, &file));
  }
  return file;
}

absl::Status FindTargets(const fs::path& file, const WeightFiles& weights,
                         const v1::ModelConfig& resolved, v1::LoraConfig* lora) {
  const std::string prefix =
      absl::StrCat(kPeftPrefix, IsGpt2(resolved) ? "transformer.h." : "model.layers.");
  std::set<std::string> targets;
  std::set<int> layers;
  for (const std::string& name : weights.names()) {
    if (resolved.has_label_head() && name == kPeftLabelHead) continue;
    const std::vector<std::string> parts = absl::StrSplit(name, '.');
    int layer = 0;
    std::vector<std::string> found;
    if (parts.size() == 9 && name.starts_with(prefix) && absl::SimpleAtoi(parts[4], &layer)) {
      found = TargetsOf(resolved, parts[5], parts[6]);
    }
    if (found.empty()) {
      return BadAdapterTensor(
          file, name,
          absl::StrCat("expected names such as ", prefix,
                       IsGpt2(resolved) ? "0.attn.c_attn" : "0.self_attn.q_proj",
                       ".lora_A.weight: adapters of the matrices of a model of the family ",
                       v1::Family_Name(resolved.family())));
    }
    if (layer < 0 || layer >= resolved.num_layers()) {
      return BadAdapterTensor(
          file, name,
          absl::StrCat("expected layers 0 to ", resolved.num_layers() - 1, ", which the base has"));
    }
    layers.insert(layer);
    targets.insert(found.begin(), found.end());
  }
  lora->mutable_targets()->Assign(targets.begin(), targets.end());
  if (std::ssize(layers) < resolved.num_layers()) {
    lora->mutable_layers()->Assign(layers.begin(), layers.end());
  }
  return absl::OkStatus();
}

absl::Status FillAdapters(const fs::path& file, const WeightFiles& weights, LanguageModel& model) {
  std::set<std::string> left;
  for (const std::string& name : weights.names()) left.insert(name);
  const std::map<std::string, TensorPart> parts = PeftPartsOf(model);
  for (Parameter& p : model.parameters()) {
    if (!p.trained) continue;
    const auto adapter = parts.find(p.name);
    const TensorPart part =
        adapter != parts.end() ? adapter->second : TensorPart{kPeftLabelHead, p.shape, 0};
    const TensorInfo* const tensor = weights.Find(part.name);
    if (tensor == nullptr) {
      return BadAdapterTensor(file, part.name,
                              "missing, expected adapters of the same matrices in every layer that "
                              "has some");
    }
    if (tensor->shape != part.shape) {
      return BadAdapterTensor(file, part.name,
                              absl::StrCat("got shape ", PeftShape(tensor->shape), ", expected ",
                                           PeftShape(part.shape)));
    }
    RETURN_IF_ERROR(weights.ReadRange(part.name, static_cast<size_t>(part.first), p.value));
    left.erase(part.name);
  }
  if (left.empty()) return absl::OkStatus();
  return BadAdapterTensor(file, *left.begin(), "not an adapter of the base's matrices");
}

absl::Status BadAdapterTensor(const fs::path& file, const std::string& name,
                              const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(file.string(), ": tensor ", name, ": ", problem));
}

}  // namespace braid
