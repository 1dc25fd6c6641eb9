#include "reproduce/reproduction_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/nearest_word.h"
#include "base/number_text.h"
#include "client/repeatable_request_id.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/tables.h"
#include "client/training_slots.h"
#include "reproduce/corpus_check.h"
#include "reproduce/run_scorer.h"
#include "reproduce/tuning_plan.h"

namespace braid {
namespace {

// Measured for both orders on 2 cores: 24 MB took 23 s, 77 MB 123 s. The time of the neighbor
// search grows faster than the text.
constexpr double kSecondsOfPreparation = 0.35;
constexpr double kGrowthOfPreparation = 1.35;
// Seconds to start a trainer, to read data and to write the last checkpoint.
constexpr double kSecondsOfStart = 2;
// Scoring on one thread.
constexpr double kScoredTokensPerSecond = 51200;
constexpr double kMostHeldout = 0.03;
// Least text of a dataset that runs repeat. Documents are chosen by hash, so of less there might be
// none.
constexpr double kLeastRepeatedBytes = 65536;

ReproductionPlan MakePlan(const Experiment& experiment, std::string name, const PlanSize& size) {
  ReproductionPlan plan{.experiment = &experiment,
                        .name = std::move(name),
                        .num_steps = size.num_steps,
                        .heldout_windows = size.heldout_windows,
                        .epochs = size.epochs,
                        .max_examples = size.max_examples,
                        .arms = experiment.arms};
  if (plan.name == "quick") {
    std::erase_if(plan.arms, [](const ArmDefinition& arm) { return arm.full_only; });
  }
  return WithSeeds(std::move(plan), size.num_seeds);
}

// Adds the runs of an arm with one seed.
void AddRuns(const ArmDefinition& arm, uint64_t seed, ReproductionPlan* plan) {
  if (!arm.tuning.has_value()) {
    for (const v1::OrderMode order : arm.orders) plan->runs.push_back({arm, order, seed});
    return;
  }
  for (const TunedTask& task : plan->experiment->tasks) {
    if (!arm.IsTunedOn(task) || (task.is_extra && plan->name == "quick")) continue;
    plan->runs.push_back({.arm = arm, .order = v1::RANDOM, .seed = seed, .task = task.name});
  }
}

// Returns the tokens on which a fine-tuning run trains; without a task, in the mean over those of
// all arms.
double TunedTokens(const ReproductionPlan& plan, const PlannedRun& run) {
  if (plan.tuning_steps > 0) {
    const int64_t sequences =
        plan.tuning_steps * plan.experiment->tuning_settings.batch().global_batch_size();
    return static_cast<double>(sequences * plan.experiment->sequence_length) *
           run.arm.tuning->epochs;
  }
  double tokens = 0;
  int count = 0;
  for (const TunedTask& task : plan.experiment->tasks) {
    if (run.task.empty() ? task.is_extra : task.name != run.task) continue;
    tokens += task.share * static_cast<double>(task.num_tokens);
    ++count;
  }
  return tokens / std::max(count, 1) * plan.epochs * run.arm.tuning->epochs;
}

// Returns the fraction of the documents to hold out of a dataset.
double HeldoutFractionOf(const ReproductionPlan& plan, const CorpusSource& source,
                         const DatasetDefinition& dataset) {
  if (dataset.passes <= 0) return source.heldout_fraction;
  const double wanted = std::max(static_cast<double>(plan.num_tokens_of_run()) / dataset.passes *
                                     CorpusNeeds().bytes_per_token,
                                 kLeastRepeatedBytes);
  const double share = wanted / static_cast<double>(std::max<int64_t>(source.num_bytes, 1));
  return std::max(1 - share, source.heldout_fraction);
}

// Returns the name of the dataset that the run trains on.
std::string DatasetOf(const Experiment& experiment, const PlannedRun& run) {
  if (!run.arm.dataset.empty()) return run.arm.dataset;
  const auto found = std::ranges::find_if(experiment.datasets, [&](const DatasetDefinition& data) {
    return data.order == run.order && data.passes == 0;
  });
  return found == experiment.datasets.end() ? "" : found->name;
}

// Sets the directories of the data that the run trains on.
void SetData(const Experiment& experiment, const PlannedRun& run, const DatasetDirs& datasets,
             v1::RunSpec* spec) {
  for (v1::MixtureDataset& part : *spec->mutable_datasets()) {
    part.set_dataset(datasets.at(part.dataset()));
  }
  if (spec->datasets().empty()) spec->set_dataset_dir(datasets.at(DatasetOf(experiment, run)));
}

v1::EvaluateRequest EvaluationOf(const std::string& run_id, const std::string& dataset_dir,
                                 int32_t first_positions) {
  v1::EvaluateRequest request;
  request.add_models(run_id);
  request.set_dataset_dir(dataset_dir);
  request.set_num_threads(1);
  request.set_want_windows(true);
  request.set_first_positions(first_positions);
  // The intervals of the evaluation are not used.
  request.set_bootstrap_samples(1);
  return request;
}

void AddRouting(ScoredRouting routing, v1::EvaluateRequest* request) {
  switch (routing) {
    case ScoredRouting::kSegment:
      return request->add_routings(v1::SEGMENT_ROUTING);
    case ScoredRouting::kPrompt:
      return request->add_routings(v1::PROMPT_ROUTING);
    case ScoredRouting::kAverage:
      return request->add_fixed_weights(v1::AVERAGE_WEIGHTS);
    case ScoredRouting::kUniform:
      return request->add_fixed_weights(v1::UNIFORM_WEIGHTS);
    case ScoredRouting::kOtherDomain:
      return request->add_fixed_weights(v1::NEXT_DOMAIN_WEIGHTS);
  }
}

// Returns whether a request asks for fewer than all experts of the gate RANDOM, which needs a seed.
bool ChoosesAtRandom(const PlannedRun& run, const v1::EvaluateRequest& request) {
  const v1::RoutingConfig& routing = run.arm.settings.model().routing();
  return routing.token().gate() == v1::TokenRouting::RANDOM &&
         std::ranges::any_of(request.active_experts(),
                             [&](int32_t active) { return active < routing.num_experts(); });
}

int64_t CountRuns(const ReproductionPlan& plan, const std::string& arm) {
  return std::ranges::count_if(plan.runs, [&](const auto& run) { return run.arm.name == arm; });
}

}  // namespace

int64_t ReproductionPlan::num_tokens_of_longest_run() const {
  double longest = 1;
  for (const ArmDefinition& arm : arms) {
    if (!arm.tuning.has_value()) longest = std::max(longest, arm.length);
  }
  return std::llround(longest * static_cast<double>(num_tokens_of_run()));
}

ReproductionPlan QuickPlan(const Experiment& experiment) {
  return MakePlan(experiment, "quick", experiment.quick);
}

ReproductionPlan FullPlan(const Experiment& experiment) {
  return MakePlan(experiment, "full", experiment.full);
}

absl::StatusOr<ReproductionPlan> WithArms(ReproductionPlan plan,
                                          std::span<const std::string> names) {
  const std::vector<ArmDefinition>& all = plan.experiment->arms;
  for (const std::string& name : names) {
    if (std::ranges::find(all, name, &ArmDefinition::name) != all.end()) continue;
    std::vector<std::string> known;
    for (const ArmDefinition& arm : all) known.push_back(arm.name);
    return absl::InvalidArgumentError(absl::StrCat("--arms: got \"", name,
                                                   "\", expected an arm of ", plan.experiment->name,
                                                   DidYouMeanOrKnown(name, known)));
  }
  std::set<std::string> kept(names.begin(), names.end());
  for (const ArmDefinition& arm : all) {
    if (arm.tuning.has_value() && kept.contains(arm.name)) kept.insert(arm.tuning->base);
  }
  plan.arms = all;
  std::erase_if(plan.arms, [&](const ArmDefinition& arm) { return !kept.contains(arm.name); });
  const int num_seeds = plan.num_seeds;
  return WithSeeds(std::move(plan), num_seeds);
}

ReproductionPlan WithSeeds(ReproductionPlan plan, int num_seeds) {
  plan.num_seeds = num_seeds;
  plan.runs.clear();
  for (int seed = 0; seed < num_seeds; ++seed) {
    for (const ArmDefinition& arm : plan.arms) AddRuns(arm, static_cast<uint64_t>(seed), &plan);
  }
  return plan;
}

bool HasOtherSteps(const Experiment& experiment, const ArmDefinition& arm) {
  if (arm.tuning.has_value()) return false;
  const v1::BatchConfig& batch = arm.settings.batch();
  return arm.length > 1 ||
         (batch.has_global_batch_size() &&
          batch.global_batch_size() != experiment.settings.batch().global_batch_size());
}

std::string TuningLengthText(double epochs, int64_t steps) {
  if (steps > 0) return Counted(steps, "step");
  return absl::StrFormat("%g %s over the examples of a task", epochs,
                         epochs == 1 ? "pass" : "passes");
}

std::span<const TaskScoring> ScoringsOf(const ArmDefinition& arm, const TunedTask& task) {
  const std::span<const TaskScoring> all = arm.tuning->scorings;
  return task.is_extra ? all.first(1) : all;
}

double HeldoutFraction(const ReproductionPlan& plan, int64_t corpus_bytes) {
  const double wanted =
      static_cast<double>(plan.heldout_windows * plan.experiment->sequence_length) *
      CorpusNeeds().bytes_per_token;
  return std::min(kMostHeldout, wanted / static_cast<double>(std::max<int64_t>(corpus_bytes, 1)));
}

ReproductionPlan OnHosts(ReproductionPlan plan, std::span<const v1::HostSlots> hosts) {
  std::vector<std::string> slots;
  for (const v1::HostSlots& host : hosts) {
    slots.insert(slots.end(), std::max(host.slots(), 1), host.host());
  }
  for (size_t i = 0; i < plan.runs.size(); ++i) plan.runs[i].host = slots[i % slots.size()];
  return plan;
}

v1::CorpusSpec PlannedCorpus(const ReproductionPlan& plan, const CorpusSource& source,
                             const DatasetDefinition& dataset) {
  v1::CorpusSpec spec = source.corpus;
  spec.set_name("reproduce");
  for (const std::string& path : source.paths) spec.add_paths(path);
  spec.mutable_tokenizer()->set_vocab_size(plan.experiment->vocab_size);
  spec.mutable_tokenizer()->set_sample_bytes(4 << 20);
  spec.mutable_neighbors()->set_k(16);
  spec.mutable_pack()->set_sequence_length(plan.experiment->sequence_length);
  spec.mutable_pack()->set_domain_clusters(source.domain_clusters);
  spec.mutable_pack()->set_heldout_fraction(HeldoutFractionOf(plan, source, dataset));
  spec.mutable_pack()->set_heldout_by_similarity(dataset.heldout_by_similarity);
  if (dataset.runs_per_instance > 1) {
    spec.mutable_pack()->set_runs_per_instance(dataset.runs_per_instance);
  }
  spec.set_order(dataset.order);
  return spec;
}

v1::RunSpec PlannedRunSpec(const ReproductionPlan& plan, const PlannedRun& run,
                           const DatasetDirs& datasets) {
  const Experiment& experiment = *plan.experiment;
  v1::RunSpec spec = experiment.settings;
  const int32_t batch = spec.batch().global_batch_size();
  spec.MergeFrom(run.arm.settings);
  SetData(experiment, run, datasets, &spec);
  spec.set_name(run.name());
  const auto sequences =
      static_cast<int64_t>(run.arm.length * static_cast<double>(plan.num_steps * batch));
  spec.set_num_steps(std::max<int64_t>(sequences / spec.batch().global_batch_size(), 1));
  SetProcesses(run, &spec);
  return spec;
}

std::vector<v1::EvaluateRequest> PlannedEvaluations(const ReproductionPlan& plan,
                                                    const PlannedRun& run,
                                                    const std::string& run_id,
                                                    const DatasetDirs& datasets) {
  const Experiment& experiment = *plan.experiment;
  std::map<std::pair<std::string, int32_t>, v1::EvaluateRequest> by_windows;
  for (const PlannedScore& score : experiment.scores(run)) {
    const auto [entry, is_new] = by_windows.try_emplace({score.dataset, score.first_positions});
    if (is_new) {
      const std::string& dataset =
          score.dataset.empty() ? experiment.datasets.front().name : score.dataset;
      entry->second = EvaluationOf(run_id, datasets.at(dataset), score.first_positions);
    }
    if (is_new || score.active_experts == 0) AddRouting(score.routing, &entry->second);
    if (score.active_experts > 0) entry->second.add_active_experts(score.active_experts);
  }
  std::vector<v1::EvaluateRequest> requests;
  for (auto& [windows, request] : by_windows) {
    if (ChoosesAtRandom(run, request)) request.set_routing_seed(run.seed);
    requests.push_back(std::move(request));
  }
  return requests;
}

void SetProcesses(const PlannedRun& run, v1::RunSpec* spec) {
  spec->set_seed(run.seed);
  spec->set_world_size(1);
  spec->set_threads_per_rank(1);
  if (run.host.empty()) return;
  v1::HostSlots* const host = spec->mutable_launch()->add_hosts();
  host->set_host(run.host);
  host->set_slots(1);
}

std::string RunRequestId(const ReproductionPlan& plan, const PlannedRun& run,
                         const DatasetDirs& datasets) {
  return RepeatableRequestId(run.name(), PlannedRunSpec(plan, run, datasets));
}

double PlannedTrainingSeconds(const ReproductionPlan& plan, const PlannedRun& run) {
  const double tokens = run.arm.tuning.has_value()
                            ? TunedTokens(plan, run)
                            : run.arm.length * static_cast<double>(plan.num_tokens_of_run());
  return kSecondsOfStart + tokens / run.arm.tokens_per_second;
}

double PlannedScoringSeconds(const ReproductionPlan& plan, const PlannedRun& run,
                             int64_t corpus_bytes) {
  const Experiment& experiment = *plan.experiment;
  if (run.arm.tuning.has_value()) return PlannedTaskSeconds(plan, run);
  const double tokens = HeldoutFraction(plan, corpus_bytes) * static_cast<double>(corpus_bytes) /
                        CorpusNeeds().bytes_per_token;
  return static_cast<double>(experiment.scores(run).size()) * tokens / kScoredTokensPerSecond;
}

PlanTime EstimateTime(const ReproductionPlan& plan, int slots, int64_t corpus_bytes) {
  std::vector<double> training;
  std::vector<double> scoring;
  for (const PlannedRun& run : plan.runs) {
    training.push_back(PlannedTrainingSeconds(plan, run));
    scoring.push_back(PlannedScoringSeconds(plan, run, corpus_bytes));
  }
  const double megabytes = static_cast<double>(corpus_bytes) / 1e6;
  return {.preparation = kSecondsOfPreparation * std::pow(megabytes, kGrowthOfPreparation),
          .training = FinishTime(training, slots),
          .scoring = FinishTime(scoring, ScoringThreads(slots))};
}

std::string PlanJson(const ReproductionPlan& plan, int slots, int64_t corpus_bytes,
                     const std::vector<std::string>& notes) {
  const PlanTime time = EstimateTime(plan, slots, corpus_bytes);
  nlohmann::json runs = nlohmann::json::array();
  for (const PlannedRun& run : plan.runs) runs.push_back(run.name());
  nlohmann::json object = {{"experiment", plan.experiment->name},
                           {"plan", plan.name},
                           {"num_steps", plan.num_steps},
                           {"tokens_of_run", plan.num_tokens_of_run()},
                           {"epochs", plan.epochs},
                           {"max_examples", plan.max_examples},
                           {"runs", runs},
                           {"slots", slots},
                           {"notes", notes},
                           {"seconds",
                            {{"preparation", time.preparation},
                             {"training", time.training},
                             {"scoring", time.scoring}}}};
  if (plan.epochs > 0 && plan.tuning_steps > 0) {
    object.erase("epochs");
    object["tuning_steps"] = plan.tuning_steps;
  }
  return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void PrintPlan(const ReproductionPlan& plan, int slots, int64_t corpus_bytes, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {{"ARM", "RUNS", "EACH", "WHAT"}};
  for (const ArmDefinition& arm : plan.arms) {
    const int64_t runs = CountRuns(plan, arm.name);
    if (runs == 0) continue;
    rows.push_back({arm.name, absl::StrCat(runs),
                    FormatClock(PlannedTrainingSeconds(plan, {.arm = arm})),
                    absl::StrCat(arm.description, arm.orders.size() > 1 ? "; both orders" : "")});
  }
  PrintTable(rows, out);
  const bool others = std::ranges::any_of(
      plan.arms, [&](const auto& arm) { return HasOtherSteps(*plan.experiment, arm); });
  const PlanTime time = EstimateTime(plan, slots, corpus_bytes);
  out << absl::StrFormat(
      "\n%s: %s of %s (%s tokens)%s, %d at a time on one thread each\n"
      "estimated: %s to prepare the corpus, %s to train, %s to score; %s in total\n",
      plan.name, Counted(std::ssize(plan.runs), "run"), Counted(plan.num_steps, "step"),
      CompactCount(static_cast<double>(plan.num_tokens_of_run())),
      others ? " unless the arm says otherwise" : "", slots, FormatClock(time.preparation),
      FormatClock(time.training), FormatClock(time.scoring), FormatClock(time.total()));
  if (plan.experiment->tasks.empty()) return;
  const auto num_bases = std::ranges::count(plan.runs, "", &PlannedRun::task);
  out << absl::StrFormat(
      "%d of the runs %s; the others make %s\n", num_bases,
      num_bases == 1 ? "trains a model for fine-tuning" : "train models for fine-tuning",
      TuningLengthText(plan.epochs, plan.tuning_steps));
}

}  // namespace braid
