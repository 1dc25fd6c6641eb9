#include "model/config/finetuning_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/nearest_word.h"
#include "base/status_macros.h"
#include "model/config/attention_config.h"
#include "model/config/decoder.h"
#include "model/config/expert_split_config.h"
#include "model/config/family_config.h"
#include "model/config/head_config.h"
#include "model/config/model_config.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

constexpr std::array<std::string_view, 7> kTargets = {"q", "k", "v", "o", "gate", "up", "down"};
constexpr std::string_view kTargetNames = "q, k, v, o, gate, up or down";

template <class... Parts>
absl::Status BadFinetuning(std::string_view field, Parts... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("finetuning.", std::string(field), ": ", parts...));
}

// Returns whether `name` matches `pattern`, in which * stands for any text.
bool Matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] != '*') {
    return !name.empty() && name[0] == pattern[0] && Matches(pattern.substr(1), name.substr(1));
  }
  while (!pattern.empty() && pattern[0] == '*') pattern.remove_prefix(1);
  if (pattern.empty()) return true;
  for (size_t i = 0; i < name.size(); ++i) {
    if (Matches(pattern, name.substr(i))) return true;
  }
  return false;
}

bool IsMixing(const ParameterSpec& spec) { return spec.group == "layer_mixing"; }

// The parameters of layer mixing and a label head are trained beside those that are asked for.
bool IsTrained(const v1::Finetuning& finetuning, const ParameterSpec& spec) {
  if (!spec.trained || IsMixing(spec) || spec.name == kLabelHead) return spec.trained;
  if (finetuning.train().empty()) return !finetuning.has_lora();
  return std::ranges::any_of(
      finetuning.train(), [&](const std::string& pattern) { return Matches(pattern, spec.name); });
}

// Returns the name of the array that a parameter is bound in: q, k and v of a layer share one, and
// so do gate and up.
std::string ArrayOf(const std::string& parameter) {
  return absl::StrReplaceAll(parameter, {{".q_proj.", ".q_proj, k_proj and v_proj "},
                                         {".k_proj.", ".q_proj, k_proj and v_proj "},
                                         {".v_proj.", ".q_proj, k_proj and v_proj "},
                                         {".gate_proj.", ".gate_proj and up_proj "},
                                         {".up_proj.", ".gate_proj and up_proj "}});
}

absl::Status ResolveTargets(v1::LoraConfig* lora) {
  if (lora->targets().empty()) {
    lora->add_targets("q");
    lora->add_targets("v");
  }
  std::set<std::string> seen;
  for (std::string& target : *lora->mutable_targets()) {
    if (target.ends_with("_proj")) target.resize(target.size() - 5);
    if (std::ranges::find(kTargets, target) == kTargets.end()) {
      return BadFinetuning("lora.targets", "got ", target, ", expected ",
                           std::string(kTargetNames));
    }
    if (!seen.insert(target).second) {
      return BadFinetuning("lora.targets", "got ", target, " twice, expected each target once");
    }
  }
  std::ranges::sort(*lora->mutable_targets(), {}, [](const std::string& target) {
    return std::ranges::find(kTargets, target) - kTargets.begin();
  });
  return absl::OkStatus();
}

absl::Status ResolveLayers(int num_layers, v1::LoraConfig* lora) {
  std::set<int> layers;
  for (int layer : lora->layers()) {
    const int counted = layer < 0 ? num_layers + layer : layer;
    if (counted < 0 || counted >= num_layers) {
      return BadFinetuning("lora.layers", "got ", layer, ", expected ", -num_layers, " to ",
                           num_layers - 1);
    }
    if (!layers.insert(counted).second) {
      return BadFinetuning("lora.layers", "got layer ", counted, " twice");
    }
  }
  lora->mutable_layers()->Assign(layers.begin(), layers.end());
  return absl::OkStatus();
}

absl::Status CheckNumbers(const v1::LoraConfig& lora) {
  if (!(std::isfinite(lora.alpha()) && lora.alpha() > 0)) {
    return BadFinetuning("lora.alpha", "got ", lora.alpha(), ", expected a positive number");
  }
  if (!(lora.dropout() >= 0 && lora.dropout() < 1)) {
    return BadFinetuning("lora.dropout", "got ", lora.dropout(),
                         ", expected at least 0 and less than 1");
  }
  if (lora.rank() >= 1) return absl::OkStatus();
  return BadFinetuning("lora.rank", "got ", lora.rank(), ", expected at least 1");
}

absl::Status CheckAdapters(const v1::ModelConfig& model, const v1::Finetuning& finetuning) {
  for (const AdapterSpec& adapter : AdaptersOf(model, finetuning)) {
    if (adapter.target == "gate" && IsGpt2(model)) {
      return BadFinetuning("lora.targets",
                           "got gate, but the FFN of GPT2 has none; expected q, k, v, o, up or "
                           "down");
    }
    if (adapter.experts > 0 && finetuning.lora().dropout() > 0) {
      return BadFinetuning("lora.dropout", "got ", finetuning.lora().dropout(), " with target ",
                           adapter.target, " of layer ", adapter.layer,
                           ", which has experts; expected 0, or other targets or layers");
    }
    if (IsFfnTarget(adapter.target) && adapter.experts == 0 && model.has_dropout()) {
      return BadFinetuning("lora.targets", "got ", adapter.target,
                           ", but FFNs with adapters have no model.dropout; expected q, k, v or o, "
                           "or finetuning.lora.dropout instead");
    }
    const int64_t side = std::min(adapter.in, adapter.out);
    if (finetuning.lora().rank() > side) {
      return BadFinetuning("lora.rank", "got ", finetuning.lora().rank(), ", expected at most ",
                           side, ", the smaller side of ", adapter.matrix);
    }
  }
  return absl::OkStatus();
}

// Returns the first group that matches a parameter; nullptr without any.
const v1::LearningRateGroup* GroupOf(const v1::Finetuning& finetuning,
                                     const std::string& parameter) {
  for (const v1::LearningRateGroup& group : finetuning.learning_rates()) {
    if (Matches(group.pattern(), parameter)) return &group;
  }
  return nullptr;
}

double RateFactor(const v1::Finetuning& finetuning, const std::string& parameter) {
  const v1::LearningRateGroup* const group = GroupOf(finetuning, parameter);
  return group == nullptr ? 1 : group->factor();
}

// Checks that each group applies to a parameter, and that at least one parameter is trained.
absl::Status CheckRates(const v1::ModelConfig& model, const v1::Finetuning& finetuning) {
  std::vector<std::string> names;
  for (const ParameterSpec& spec : FinetunedLayout(model, finetuning)) {
    if (spec.trained) names.push_back(spec.name);
  }
  for (const v1::LearningRateGroup& group : finetuning.learning_rates()) {
    if (group.pattern().empty()) {
      return BadFinetuning("learning_rates", "got a group without a pattern, expected the name of ",
                           "a parameter, in which * stands for any text");
    }
    if (!(group.factor() >= 0 && std::isfinite(group.factor()))) {
      return BadFinetuning("learning_rates", "got factor ", group.factor(), " for ",
                           group.pattern(), ", expected a number of at least 0");
    }
    const auto matches = [&](const std::string& name) { return Matches(group.pattern(), name); };
    const auto applies = [&](const std::string& name) {
      return GroupOf(finetuning, name) == &group;
    };
    if (std::ranges::any_of(names, applies)) continue;
    if (std::ranges::any_of(names, matches)) {
      return BadFinetuning("learning_rates", "got ", group.pattern(),
                           " after patterns that match the same parameters, of which the first "
                           "applies; expected it before them, or not at all");
    }
    const std::string nearest = NearestWord(group.pattern(), names);
    return BadFinetuning("learning_rates", "got ", group.pattern(),
                         ", which matches no trained parameter; the nearest is ",
                         nearest.empty() ? names.front() : nearest);
  }
  const auto learns = [&](const std::string& name) { return RateFactor(finetuning, name) > 0; };
  if (finetuning.learning_rates().empty() || std::ranges::any_of(names, learns)) {
    return absl::OkStatus();
  }
  return BadFinetuning("learning_rates",
                       "got factor 0 for all trained parameters, expected more than 0 for one");
}

// Checks the settings of the loss and of the update.
absl::Status CheckTuning(const v1::ModelConfig& model, const v1::Finetuning& finetuning) {
  const double smoothing = finetuning.label_smoothing(), noise = finetuning.embedding_noise();
  if (!(smoothing >= 0 && smoothing < 1)) {
    return BadFinetuning("label_smoothing", "got ", smoothing,
                         ", expected at least 0 and less than 1");
  }
  if (smoothing > 0 && model.consistency_loss() > 0) {
    return BadFinetuning("label_smoothing", "got ", smoothing,
                         " with model.consistency_loss, expected one of the two");
  }
  if (smoothing > 0 && model.label_head().regression()) {
    return BadFinetuning("label_smoothing", "got ", smoothing,
                         " with model.label_head.regression, expected 0: numbers have no classes");
  }
  if (!(noise >= 0 && std::isfinite(noise))) {
    return BadFinetuning("embedding_noise", "got ", noise, ", expected a number of at least 0");
  }
  return CheckRates(model, finetuning);
}

absl::Status CheckPatterns(const v1::ModelConfig& model, const v1::Finetuning& finetuning) {
  const std::vector<ParameterSpec> layout = ParameterLayout(model);
  for (const std::string& pattern : finetuning.train()) {
    const bool used = std::ranges::any_of(layout, [&](const ParameterSpec& spec) {
      return spec.trained && Matches(pattern, spec.name);
    });
    if (used) continue;
    return BadFinetuning("train", "got ", pattern,
                         ", which matches no parameter; expected names such as ",
                         layout.back().name, " or ", LayerPrefix(0), "*");
  }
  std::map<std::string, std::pair<std::string, bool>> arrays;
  for (const ParameterSpec& spec : layout) {
    const auto [array, added] =
        arrays.insert({ArrayOf(spec.name), {spec.name, IsTrained(finetuning, spec)}});
    if (array->second.second == IsTrained(finetuning, spec)) continue;
    return BadFinetuning("train", "got a part of ", array->first, " (",
                         array->second.second ? array->second.first : spec.name,
                         "), expected all of them or none: they are one array");
  }
  for (const AdapterSpec& adapter : AdaptersOf(model, finetuning)) {
    if (!arrays.at(ArrayOf(adapter.matrix)).second) continue;
    return BadFinetuning("train", "got ", adapter.matrix,
                         ", which has an adapter or shares an array with a matrix that has one; "
                         "expected other parameters or other finetuning.lora.targets");
  }
  return absl::OkStatus();
}

AdapterSpec AdapterOf(const v1::ModelConfig& model, int layer, const std::string& target) {
  const AttentionHeads heads = HeadsOf(model);
  const bool experts = IsFfnTarget(target) && IsMoeLayer(model, layer);
  const int64_t d = model.d_model(), f = experts ? ExpertWidth(model) : model.d_ff();
  const std::string block = !IsFfnTarget(target) ? "self_attn." : experts ? "mlp.experts." : "mlp.";
  const std::string module = absl::StrCat(LayerPrefix(layer), block, target, "_proj");
  AdapterSpec spec{.layer = layer,
                   .target = target,
                   .matrix = absl::StrCat(module, target == "down" ? ".weight_t" : ".weight"),
                   .a = absl::StrCat(module, ".lora_A.weight"),
                   .b = absl::StrCat(module, ".lora_B.weight"),
                   .in = d,
                   .out = f};
  if (target == "q") spec.out = heads.query_width();
  if (target == "k" || target == "v") spec.out = heads.key_value_width();
  if (target == "o") spec.in = heads.query_width(), spec.out = d;
  if (target == "down") spec.in = f, spec.out = d;
  if (experts) spec.experts = model.routing().num_experts();
  return spec;
}

ParameterSpec AdapterParameter(const std::string& name, std::vector<int64_t> shape, double bound) {
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  return {.name = name,
          .group = "adapter",
          .shape = std::move(shape),
          .size = size,
          .initial_value = 0,
          .initial_bound = bound};
}

// Marks the trained parameters of a partial training and appends its adapters.
void AddAdapters(const v1::ModelConfig& resolved, const v1::Finetuning& finetuning,
                 std::vector<ParameterSpec>* parameters) {
  std::vector<ParameterSpec>& layout = *parameters;
  for (ParameterSpec& spec : layout) spec.trained = IsTrained(finetuning, spec);
  const int64_t rank = finetuning.lora().rank();
  for (const AdapterSpec& adapter : AdaptersOf(resolved, finetuning)) {
    const double bound = 1 / std::sqrt(static_cast<double>(adapter.in));
    layout.push_back(AdapterParameter(adapter.a, adapter.a_shape(rank), bound));
    layout.push_back(AdapterParameter(adapter.b, adapter.b_shape(rank), 0));
  }
  int64_t offset = 0, gradient_offset = 0;
  for (const bool trained : {false, true}) {
    for (ParameterSpec& spec : layout) {
      if ((spec.trained || IsMixing(spec)) != trained) continue;
      spec.offset = offset;
      spec.gradient_offset = trained ? gradient_offset : -1;
      offset += spec.size;
      if (trained) gradient_offset += spec.size;
    }
  }
}

}  // namespace

std::vector<int64_t> AdapterSpec::a_shape(int64_t rank) const {
  if (experts > 0) return {experts, rank, in};
  return {rank, in};
}

std::vector<int64_t> AdapterSpec::b_shape(int64_t rank) const {
  if (experts > 0) return {experts, out, rank};
  return {out, rank};
}

bool IsFfnTarget(std::string_view target) {
  return target == "gate" || target == "up" || target == "down";
}

absl::StatusOr<v1::Finetuning> ResolveFinetuning(const v1::Finetuning& asked,
                                                 const v1::ModelConfig& resolved) {
  if (asked.recompose()) RETURN_IF_ERROR(CheckRecomposable(resolved));
  v1::Finetuning finetuning = asked;
  if (finetuning.has_lora()) {
    v1::LoraConfig* const lora = finetuning.mutable_lora();
    FillStatedDefaults(lora);
    RETURN_IF_ERROR(CheckNumbers(*lora));
    RETURN_IF_ERROR(ResolveTargets(lora));
    RETURN_IF_ERROR(ResolveLayers(resolved.num_layers(), lora));
    RETURN_IF_ERROR(CheckAdapters(resolved, finetuning));
  }
  RETURN_IF_ERROR(CheckPatterns(resolved, finetuning));
  RETURN_IF_ERROR(CheckTuning(resolved, finetuning));
  return finetuning;
}

std::vector<AdapterSpec> AdaptersOf(const v1::ModelConfig& resolved,
                                    const v1::Finetuning& finetuning) {
  std::vector<AdapterSpec> adapters;
  if (!finetuning.has_lora()) return adapters;
  const v1::LoraConfig& lora = finetuning.lora();
  for (int layer = 0; layer < resolved.num_layers(); ++layer) {
    if (!lora.layers().empty() && !std::ranges::count(lora.layers(), layer)) continue;
    for (const std::string& target : lora.targets()) {
      adapters.push_back(AdapterOf(resolved, layer, target));
    }
  }
  return adapters;
}

double AdapterScale(const v1::LoraConfig& resolved) {
  const double rank = resolved.rank();
  return resolved.alpha() / (resolved.rs_lora() ? std::sqrt(rank) : rank);
}

std::vector<ParameterSpec> FinetunedLayout(const v1::ModelConfig& resolved,
                                           const v1::Finetuning& finetuning) {
  std::vector<ParameterSpec> layout = ParameterLayout(resolved);
  if (IsPartial(finetuning)) AddAdapters(resolved, finetuning, &layout);
  for (ParameterSpec& spec : layout) {
    spec.decay_factor = RateFactor(finetuning, spec.name);
    spec.rate_factor *= spec.decay_factor;
  }
  return layout;
}

}  // namespace braid
