#include "evaluation/expert_activity.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "braid/v1/analysis.pb.h"
#include "conversion/unit_order.h"
#include "evaluation/analysis_frame.h"
#include "evaluation/choice_drift.h"
#include "evaluation/heldout_windows.h"
#include "evaluation/routing_analysis.h"
#include "formats/packed_dataset.h"
#include "formats/tokenizer.h"
#include "model/config/expert_split_config.h"
#include "model/config/family_config.h"
#include "model/config/head_config.h"
#include "model/config/inference_experts.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/unit_activations.h"
#include "runs/model_path.h"
#include "trainer/data_loader.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int kDefaultExperts = 16;
constexpr int kRandomPartitions = 4;
constexpr uint64_t kRandomSeed = 1000;
constexpr int64_t kExpertActivityTokensPerPass = 2048;

// Returns the group of each unit, where order[i] is the i-th unit of the groups.
std::vector<int32_t> GroupsOf(const UnitOrder& order, int num_groups) {
  const size_t size = order.size() / static_cast<size_t>(num_groups);
  std::vector<int32_t> group_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) group_of[order[i]] = static_cast<int32_t>(i / size);
  return group_of;
}

// Returns the groups with the highest sums of keys; ties go to the lowest index.
std::vector<int32_t> HighestGroups(std::span<const double> keys, size_t count) {
  std::vector<int32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](int32_t group) { return keys[group]; });
  order.resize(count);
  return order;
}

// One token's units, summed by group.
struct TokenGroups {
  std::vector<double> keys, mass, active;

  // `units` has the numbers of one token.
  TokenGroups(const UnitActivations& units, const std::vector<int32_t>& group_of, int num_groups)
      : keys(num_groups), mass(num_groups), active(num_groups) {
    for (size_t u = 0; u < units.keys.size(); ++u) {
      const int32_t group = group_of[u];
      keys[group] += units.keys[u];
      mass[group] += std::abs(units.hidden[u]);
      active[group] += units.gate[u] > 0;
    }
  }
};

struct ActivitySums {
  double mass = 0, active = 0;

  void Add(const TokenGroups& token, std::span<const int32_t> groups) {
    for (const int32_t group : groups) {
      mass += token.mass[group];
      active += token.active[group];
    }
  }
};

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

class LayerActivity {
 public:
  LayerActivity(int layer, const ExpertActivityOptions& options, size_t num_domains)
      : layer_(layer),
        num_groups_(options.num_experts),
        usual_(options.active_experts),
        expert_of_(options.expert_of.at(layer)),
        choices_(num_domains, std::vector<double>(options.num_experts)),
        tokens_(num_domains) {
    for (int i = 0; i < kRandomPartitions; ++i) {
      const auto order = SplitUnits(ExpertSplit::kRandom, {}, std::ssize(expert_of_), 0,
                                    num_groups_, kRandomSeed + static_cast<uint64_t>(i));
      BRAID_CHECK(order.ok()) << order.status();
      random_.push_back(GroupsOf(*order, num_groups_));
    }
  }

  // Prompts of tasks are counted in `choices_` only.
  void Add(size_t domain, const UnitActivations& seen, const Batch& batch, bool is_prompt) {
    const size_t tokens = batch.inputs.size(), units = expert_of_.size();
    const size_t length = tokens / static_cast<size_t>(batch.batch_size);
    const size_t k = seen.chosen.size() / tokens;
    for (size_t t = 0; t < tokens; ++t) {
      if (static_cast<int64_t>(t % length) >= batch.lengths[t / length]) continue;
      const UnitActivations token = {.layer = seen.layer,
                                     .keys = seen.keys.subspan(t * units, units),
                                     .gate = seen.gate.subspan(t * units, units),
                                     .hidden = seen.hidden.subspan(t * units, units),
                                     .chosen = seen.chosen.subspan(t * k, k)};
      const std::vector<int32_t> chosen = ChosenExperts(token.keys, token.chosen, expert_of_,
                                                        num_groups_, static_cast<int>(usual_));
      for (const int32_t expert : chosen) ++choices_[domain][expert];
      ++tokens_[domain];
      if (!is_prompt) AddToken(token, chosen);
    }
  }

  v1::LayerExpertActivity Summarize(std::span<const std::string> domain_names) const {
    v1::LayerExpertActivity result;
    result.set_layer(layer_);
    result.set_mass_share(Ratio(chosen_.mass, all_.mass));
    result.set_active_share(Ratio(chosen_.active, all_.active));
    result.set_random_mass_share(Ratio(by_chance_.mass, all_.mass * kRandomPartitions));
    result.set_random_active_share(Ratio(by_chance_.active, all_.active * kRandomPartitions));
    for (size_t d = 0; d < tokens_.size(); ++d) {
      if (tokens_[d] == 0) continue;
      v1::DomainRouting* const domain = result.add_domains();
      domain->set_domain(domain_names[d]);
      domain->set_num_decisions(tokens_[d]);
      const double total = std::accumulate(choices_[d].begin(), choices_[d].end(), 0.0);
      for (const double count : choices_[d]) domain->add_weights(Ratio(count, total));
    }
    return result;
  }

  // Returns the number of tokens that are not of prompts.
  int64_t num_tokens() const { return num_tokens_; }

 private:
  void AddToken(const UnitActivations& units, std::span<const int32_t> chosen) {
    const TokenGroups token(units, expert_of_, num_groups_);
    std::vector<int32_t> all(num_groups_);
    std::iota(all.begin(), all.end(), 0);
    ++num_tokens_;
    all_.Add(token, all);
    chosen_.Add(token, chosen);
    for (const std::vector<int32_t>& group_of : random_) {
      const TokenGroups groups(units, group_of, num_groups_);
      by_chance_.Add(groups, HighestGroups(groups.keys, chosen.size()));
    }
  }

  const int layer_, num_groups_;
  const size_t usual_;
  const std::vector<int32_t>& expert_of_;
  std::vector<std::vector<int32_t>> random_;  // the group of each unit, by partition
  std::vector<std::vector<double>> choices_;  // [domain][expert]
  std::vector<int64_t> tokens_;               // [domain]
  int64_t num_tokens_ = 0;
  ActivitySums all_, chosen_, by_chance_;  // by_chance_ over all partitions
};

absl::Status MeasureDomain(LanguageModel& model, const HeldoutDomain& domain, size_t number,
                           int64_t per_pass, std::map<int, LayerActivity>* layers,
                           const std::function<void(int64_t)>& advance) {
  std::vector<int> numbers;
  for (const auto& [layer, activity] : *layers) numbers.push_back(layer);
  for (int64_t begin = 0; begin < domain.num_windows; begin += per_pass) {
    std::vector<int64_t> windows(std::min(per_pass, domain.num_windows - begin));
    std::iota(windows.begin(), windows.end(), begin);
    ASSIGN_OR_RETURN(const Batch batch, domain.windows.Load(windows));
    RETURN_IF_ERROR(VisitUnits(
        model, batch.inputs, batch.batch_size, numbers, [&](const UnitActivations& seen) {
          layers->at(seen.layer).Add(number, seen, batch, /*is_prompt=*/false);
        }));
    advance(batch.batch_size);
  }
  return absl::OkStatus();
}

// Adds the prompts of a task as the domain `number`.
absl::Status MeasurePrompts(LanguageModel& model, const TaskPrompts& task, size_t number,
                            std::map<int, LayerActivity>* layers,
                            const std::function<void(int64_t)>& advance) {
  std::vector<int> numbers;
  for (const auto& [layer, activity] : *layers) numbers.push_back(layer);
  for (const std::vector<int32_t>& prompt : task.prompts) {
    Batch batch;
    batch.inputs = prompt;
    batch.batch_size = 1;
    batch.lengths = {std::ssize(prompt)};
    RETURN_IF_ERROR(VisitUnits(model, prompt, 1, numbers, [&](const UnitActivations& seen) {
      layers->at(seen.layer).Add(number, seen, batch, /*is_prompt=*/true);
    }));
    advance(1);
  }
  return absl::OkStatus();
}

// The experts of a dense model.
absl::StatusOr<ExpertActivityOptions> SplitToMeasure(LanguageModel& model, v1::ExpertSplit split) {
  using Split = v1::ExpertSplit;
  if (split.num_experts() == 0) split.set_num_experts(kDefaultExperts);
  if (split.method() == Split::METHOD_UNSPECIFIED) split.set_method(Split::KEYS);
  if (split.method() == Split::COPIES) {
    return absl::InvalidArgumentError(
        "split.method: got COPIES, expected KEYS, CONTIGUOUS or RANDOM: copies have the same "
        "units");
  }
  ASSIGN_OR_RETURN(const v1::ModelConfig config, ExpertSplitConfig(model.config(), split));
  if (config.routing().token().gate() != v1::TokenRouting::KEY_MEAN) {
    return absl::InvalidArgumentError(absl::StrCat(
        "split.gate: got ", v1::TokenRouting::Gate_Name(config.routing().token().gate()),
        ", expected KEY_MEAN: a dense model has no other gate"));
  }
  const ExpertSplit method = split.method() == Split::KEYS         ? ExpertSplit::kKeys
                             : split.method() == Split::CONTIGUOUS ? ExpertSplit::kContiguous
                                                                   : ExpertSplit::kRandom;
  ExpertActivityOptions options = {.num_experts = split.num_experts(),
                                   .active_experts = config.routing().token().active_experts(),
                                   .expert_of = {},
                                   .tasks = {}};
  for (const int layer : MoeLayers(config)) {
    const std::string keys = KeysName(config, layer);
    const auto matrix = std::ranges::find(model.parameters(), keys, &Parameter::name);
    BRAID_CHECK(matrix != model.parameters().end()) << keys;
    ASSIGN_OR_RETURN(const UnitOrder order,
                     SplitUnits(method, matrix->value, matrix->shape[0], matrix->shape[1],
                                split.num_experts(), split.seed() + layer));
    options.expert_of[layer] = GroupsOf(order, split.num_experts());
  }
  return options;
}

}  // namespace

std::vector<int32_t> ChosenExperts(std::span<const float> keys, std::span<const int32_t> routed,
                                   std::span<const int32_t> expert_of, int num_experts,
                                   int active) {
  std::vector<int32_t> chosen;
  std::ranges::copy_if(routed, std::back_inserter(chosen), [](int32_t e) { return e >= 0; });
  if (!routed.empty()) return chosen;
  std::vector<double> sums(num_experts);
  for (size_t u = 0; u < keys.size(); ++u) sums[expert_of[u]] += keys[u];
  return HighestGroups(sums, active);
}

absl::StatusOr<ExpertActivityOptions> ExpertsToMeasure(LanguageModel& model, v1::ExpertSplit split,
                                                       const std::vector<int>& layers,
                                                       std::optional<uint64_t> routing_seed) {
  const v1::ModelConfig& config = model.config();
  if (!split.layers().empty()) {
    return absl::InvalidArgumentError("split.layers: got layers, expected them in layers");
  }
  split.mutable_layers()->Assign(layers.begin(), layers.end());
  if (routing_seed.has_value()) RETURN_IF_ERROR(model.SetRoutingSeed(*routing_seed));
  if (!UsesExperts(config)) return SplitToMeasure(model, std::move(split));
  if (config.routing().router() != v1::TOKEN_CHOICE) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: the router is ", v1::Router_Name(config.routing().router()),
                     ", expected a dense model or TOKEN_CHOICE; use braid analyze routing"));
  }
  ASSIGN_OR_RETURN(const std::set<int> counted, LayersToSplit(split, config.num_layers()));
  if (split.has_active_experts()) {
    RETURN_IF_ERROR(CheckActiveExperts(config, "split.active_experts", split.active_experts(),
                                       routing_seed.has_value()));
    RETURN_IF_ERROR(model.SetActiveExperts(split.active_experts()));
  }
  split.clear_layers();
  split.clear_active_experts();
  if (split.ByteSizeLong() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("split: got ", split.ShortDebugString(),
                     ", but the model has experts of its own; leave all but active_experts unset"));
  }
  std::vector<int> asked;
  if (!layers.empty()) asked.assign(counted.begin(), counted.end());
  ASSIGN_OR_RETURN(const std::vector<int> measured, LayersToAnalyze(config, std::move(asked)));
  ExpertActivityOptions options = {
      .num_experts = config.routing().num_experts(),
      .active_experts = InferenceExperts(config, routing_seed.has_value()),
      .expert_of = {},
      .tasks = {},
      .routing_seed = routing_seed};
  UnitOrder order(static_cast<size_t>(ExpertWidth(config)) * options.num_experts);
  std::iota(order.begin(), order.end(), 0);
  for (const int layer : measured) options.expert_of[layer] = GroupsOf(order, options.num_experts);
  return options;
}

absl::StatusOr<v1::ExpertActivity> MeasureExpertActivity(
    LanguageModel& model, const fs::path& dataset_dir, const ExpertActivityOptions& options,
    const std::function<void(int64_t done, int64_t total)>& progress) {
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(dataset_dir));
  RETURN_IF_ERROR(CheckFits(model.config(), info, dataset_dir));
  ASSIGN_OR_RETURN(const std::vector<HeldoutDomain> domains,
                   OpenDomains(dataset_dir, info, options.max_windows_per_domain));
  std::map<int, LayerActivity> layers;
  for (const auto& [layer, expert_of] : options.expert_of) {
    layers.try_emplace(layer, layer, options, domains.size() + options.tasks.size());
  }
  int64_t done = 0, total = 0;
  for (const HeldoutDomain& domain : domains) total += domain.num_windows;
  for (const TaskPrompts& task : options.tasks) total += std::ssize(task.prompts);
  const auto advance = [&](int64_t windows) { progress(done += windows, total); };
  const int64_t per_pass =
      std::max<int64_t>(kExpertActivityTokensPerPass / info.sequence_length, 1);
  for (size_t d = 0; d < domains.size(); ++d) {
    RETURN_IF_ERROR(MeasureDomain(model, domains[d], d, per_pass, &layers, advance));
  }
  std::vector<std::string> names = info.domains;
  for (const TaskPrompts& task : options.tasks) {
    RETURN_IF_ERROR(MeasurePrompts(model, task, names.size(), &layers, advance));
    names.push_back(task.task);
  }
  v1::ExpertActivity result;
  result.set_num_experts(options.num_experts);
  result.set_active_experts(options.active_experts);
  result.set_varying_experts(HasVaryingExperts(model.config()));
  for (const auto& [layer, activity] : layers) {
    *result.add_layers() = activity.Summarize(names);
  }
  result.set_num_tokens(layers.begin()->second.num_tokens());
  return result;
}

absl::Status AnalyzeExperts(const v1::AnalyzeExpertsRequest& request,
                            const std::function<void(const v1::AnalyzeExpertsEvent&)>& emit) {
  SetModelThreads(request.num_threads());
  ASSIGN_OR_RETURN(ModelPath path, FindModel(request.model(), request.strict()));
  ASSIGN_OR_RETURN(const fs::path dataset_dir, AnalyzedDataset(request.dataset_dir(), path));
  RETURN_IF_ERROR(CheckPredictsTokens(path.state.model, path.checkpoint.string()));
  ASSIGN_OR_RETURN(const auto model, LoadModel(path.checkpoint, path.state.use_average));
  ASSIGN_OR_RETURN(
      ExpertActivityOptions options,
      ExpertsToMeasure(*model, request.split(), {request.layers().begin(), request.layers().end()},
                       request.has_routing_seed() ? std::optional<uint64_t>(request.routing_seed())
                                                  : std::nullopt));
  options.max_windows_per_domain = request.max_windows_per_domain();
  if (!request.tasks().empty()) {
    ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(path.checkpoint / "tokenizer.model"));
    const std::vector<std::string> tasks(request.tasks().begin(), request.tasks().end());
    ASSIGN_OR_RETURN(options.tasks,
                     ReadTaskPrompts(tasks, request.tasks_dir(), model->config(), *tokenizer));
  }
  int64_t windows = 0;
  const auto progress = EmitProgress(emit);
  ASSIGN_OR_RETURN(
      v1::ExpertActivity activity,
      MeasureExpertActivity(*model, dataset_dir, options,
                            [&](int64_t done, int64_t total) { progress(done, windows = total); }));
  if (IsRunDirectory(SplitReference(request.model()).model)) {
    std::vector<std::string> skipped;
    ASSIGN_OR_RETURN(const auto drift,
                     MeasureChoiceDrift(*path.run, path, *model, dataset_dir, options, &skipped));
    RETURN_IF_ERROR(AddSkipped(skipped, request.strict(), &path.source));
    activity.mutable_drift()->Assign(drift.begin(), drift.end());
  }
  EmitResult(request.model(), path, windows, std::move(activity), emit);
  return absl::OkStatus();
}

}  // namespace braid
