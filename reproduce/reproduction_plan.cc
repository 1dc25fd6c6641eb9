#include "reproduce/reproduction_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "client/repeatable_request_id.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/tables.h"
#include "client/training_slots.h"
#include "reproduce/claims.h"
#include "reproduce/corpus_check.h"

namespace braid {
namespace {

// Measured for both orders on 2 cores: 24 MB took 23 s, 77 MB 123 s. The time of the neighbor
// search grows faster than the text.
constexpr double kSecondsOfPreparation = 0.35;
constexpr double kGrowthOfPreparation = 1.35;
// Seconds to start a trainer, to read data and to write the last checkpoint.
constexpr double kSecondsOfStart = 2;
// Scoring of windows of 512 tokens on one thread.
constexpr double kWindowsPerSecond = 100;
constexpr double kMostHeldout = 0.03;

bool IsMain(const PlannedRun& run) {
  return run.order == v1::SIMILARITY && (run.arm.name == arm::kDense || run.arm.name == arm::kMoe);
}

ReproductionPlan MakePlan(std::string name, int64_t num_steps, int64_t heldout_windows,
                          int num_seeds) {
  return WithSeeds(
      {.name = std::move(name), .num_steps = num_steps, .heldout_windows = heldout_windows},
      num_seeds);
}

void SetModel(const ArmDefinition& arm, v1::ModelConfig* model) {
  model->set_preset("tiny");
  v1::RoutingConfig* const routing = model->mutable_routing();
  routing->set_router(arm.router);
  routing->set_num_experts(arm.num_experts);
  routing->set_segment_length(arm.segment_length);
  routing->set_first_segment(arm.first_segment);
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

int64_t CountRuns(const ReproductionPlan& plan, const std::string& arm) {
  return std::ranges::count_if(plan.runs, [&](const auto& run) { return run.arm.name == arm; });
}

}  // namespace

const std::vector<ArmDefinition>& ArmDefinitions() {
  static const auto* const arms = new std::vector<ArmDefinition>{
      {.name = arm::kDense,
       .description = "one FFN per layer with the shape of one expert",
       .router = v1::DENSE,
       .num_experts = 1,
       .both_orders = true,
       .tokens_per_second = 19700},
      {.name = arm::kMoe,
       .description = "8 soft experts, segments of 64, warm-up and upcycling",
       .both_orders = true},
      {.name = arm::kPrefix,
       .description = "the first segment routes the rest",
       .router = v1::PREFIX,
       .tokens_per_second = 18000},
      {.name = arm::kExpertChoiceSegment,
       .description = "expert choice by segment, capacity 1",
       .router = v1::EXPERT_CHOICE_SEGMENT,
       .dense_warmup = false,
       .tokens_per_second = 15700},
      {.name = arm::kExpertChoiceToken,
       .description = "expert choice by token, capacity 1",
       .router = v1::EXPERT_CHOICE_TOKEN,
       .dense_warmup = false,
       .tokens_per_second = 14500},
      {.name = arm::kNoWarmup,
       .description = "as moe, separate experts from the first step",
       .dense_warmup = false},
      {.name = arm::kUniformFirst,
       .description = "as moe, equal weights in the first segment (strictly causal)",
       .first_segment = v1::UNIFORM},
      {.name = arm::kExperts4, .description = "as moe, 4 experts", .num_experts = 4},
      {.name = arm::kExperts16,
       .description = "as moe, 16 experts",
       .num_experts = 16,
       .tokens_per_second = 16000},
      {.name = arm::kNoWarmup16,
       .description = "as no-warmup, 16 experts",
       .num_experts = 16,
       .dense_warmup = false,
       .tokens_per_second = 16000},
      {.name = arm::kSegment32,
       .description = "as moe, segments of 32",
       .segment_length = 32,
       .tokens_per_second = 16000},
      {.name = arm::kSegment128, .description = "as moe, segments of 128", .segment_length = 128},
  };
  return *arms;
}

std::string PlannedRun::name() const {
  return absl::StrCat(arm.name, order == v1::SIMILARITY ? "-similarity" : "-random", "-seed-",
                      seed);
}

ReproductionPlan QuickPlan() { return MakePlan("quick", 600, 1024, 1); }

ReproductionPlan FullPlan() { return MakePlan("full", 2000, 2048, 3); }

ReproductionPlan WithSeeds(ReproductionPlan plan, int num_seeds) {
  plan.runs.clear();
  for (int seed = 0; seed < num_seeds; ++seed) {
    for (const ArmDefinition& arm : ArmDefinitions()) {
      plan.runs.push_back({arm, v1::SIMILARITY, static_cast<uint64_t>(seed)});
      if (arm.both_orders) plan.runs.push_back({arm, v1::RANDOM, static_cast<uint64_t>(seed)});
    }
  }
  return plan;
}

double HeldoutFraction(const ReproductionPlan& plan, int64_t corpus_bytes) {
  const double wanted = static_cast<double>(plan.heldout_windows * kReproductionSequenceLength) *
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

v1::CorpusSpec PlannedCorpus(const CorpusSource& source, v1::OrderMode order) {
  v1::CorpusSpec spec;
  spec.set_name("reproduce");
  for (const std::string& path : source.paths) spec.add_paths(path);
  *spec.mutable_ingest() = source.ingest;
  spec.mutable_tokenizer()->set_vocab_size(2048);
  spec.mutable_tokenizer()->set_sample_bytes(4 << 20);
  spec.mutable_neighbors()->set_k(16);
  spec.mutable_pack()->set_sequence_length(kReproductionSequenceLength);
  spec.mutable_pack()->set_domain_clusters(source.domain_clusters);
  spec.mutable_pack()->set_heldout_fraction(source.heldout_fraction);
  spec.set_order(order);
  return spec;
}

v1::RunSpec PlannedRunSpec(const ReproductionPlan& plan, const PlannedRun& run,
                           const std::string& dataset_dir) {
  v1::RunSpec spec;
  spec.set_name(run.name());
  spec.set_dataset_dir(dataset_dir);
  SetModel(run.arm, spec.mutable_model());
  spec.mutable_optimizer()->set_learning_rate(6e-3);
  if (run.arm.num_experts > 1) {
    // -1 and not 0, which means the same: the id of the request digests the spec, and a
    // reproduction that an earlier version began must find its runs.
    spec.mutable_upcycling()->set_dense_fraction(run.arm.dense_warmup ? 0.05 : -1);
  }
  spec.mutable_batch()->set_global_batch_size(kReproductionBatchSize);
  spec.set_num_steps(plan.num_steps);
  spec.set_seed(run.seed);
  spec.set_world_size(1);
  spec.set_threads_per_rank(1);
  if (!run.host.empty()) {
    v1::HostSlots* const host = spec.mutable_launch()->add_hosts();
    host->set_host(run.host);
    host->set_slots(1);
  }
  return spec;
}

std::vector<PlannedScore> PlannedScores(const PlannedRun& run) {
  if (run.arm.segment_length != 64) return {{ScoredRouting::kSegment, kLongestSegment}};
  std::vector<PlannedScore> scores = {{}};
  if (!IsMain(run)) return scores;
  scores.push_back({ScoredRouting::kSegment, kLongestSegment});
  if (run.arm.name != arm::kMoe) return scores;
  for (const ScoredRouting routing : {ScoredRouting::kPrompt, ScoredRouting::kAverage,
                                      ScoredRouting::kUniform, ScoredRouting::kOtherDomain}) {
    scores.push_back({routing, run.arm.segment_length});
  }
  return scores;
}

std::vector<v1::EvaluateRequest> PlannedEvaluations(const PlannedRun& run,
                                                    const std::string& run_id,
                                                    const std::string& dataset_dir) {
  std::map<int32_t, v1::EvaluateRequest> by_positions;
  for (const PlannedScore& score : PlannedScores(run)) {
    const auto [entry, is_new] = by_positions.try_emplace(score.first_positions);
    if (is_new) entry->second = EvaluationOf(run_id, dataset_dir, score.first_positions);
    AddRouting(score.routing, &entry->second);
  }
  std::vector<v1::EvaluateRequest> requests;
  for (auto& [positions, request] : by_positions) requests.push_back(std::move(request));
  return requests;
}

std::string RunRequestId(const ReproductionPlan& plan, const PlannedRun& run,
                         const std::string& dataset_dir) {
  return RepeatableRequestId(run.name(), PlannedRunSpec(plan, run, dataset_dir));
}

double PlannedTrainingSeconds(const ReproductionPlan& plan, const PlannedRun& run) {
  return kSecondsOfStart +
         static_cast<double>(plan.num_tokens_of_run()) / run.arm.tokens_per_second;
}

double PlannedScoringSeconds(const ReproductionPlan& plan, const PlannedRun& run) {
  return static_cast<double>(PlannedScores(run).size()) *
         static_cast<double>(plan.heldout_windows) / kWindowsPerSecond;
}

PlanTime EstimateTime(const ReproductionPlan& plan, int slots, int64_t corpus_bytes) {
  std::vector<double> training;
  std::vector<double> scoring;
  for (const PlannedRun& run : plan.runs) {
    training.push_back(PlannedTrainingSeconds(plan, run));
    scoring.push_back(PlannedScoringSeconds(plan, run));
  }
  const double megabytes = static_cast<double>(corpus_bytes) / 1e6;
  return {.preparation = kSecondsOfPreparation * std::pow(megabytes, kGrowthOfPreparation),
          .training = FinishTime(training, slots),
          .scoring = FinishTime(scoring, slots)};
}

std::string PlanJson(const ReproductionPlan& plan, int slots, int64_t corpus_bytes,
                     const std::vector<std::string>& notes) {
  const PlanTime time = EstimateTime(plan, slots, corpus_bytes);
  nlohmann::json runs = nlohmann::json::array();
  for (const PlannedRun& run : plan.runs) runs.push_back(run.name());
  const nlohmann::json object = {{"plan", plan.name},
                                 {"num_steps", plan.num_steps},
                                 {"tokens_of_run", plan.num_tokens_of_run()},
                                 {"runs", runs},
                                 {"slots", slots},
                                 {"notes", notes},
                                 {"seconds",
                                  {{"preparation", time.preparation},
                                   {"training", time.training},
                                   {"scoring", time.scoring}}}};
  return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void PrintPlan(const ReproductionPlan& plan, int slots, int64_t corpus_bytes, std::ostream& out) {
  std::vector<std::vector<std::string>> rows = {{"ARM", "RUNS", "EACH", "WHAT"}};
  for (const ArmDefinition& arm : ArmDefinitions()) {
    const int64_t runs = CountRuns(plan, arm.name);
    if (runs == 0) continue;
    rows.push_back({arm.name, absl::StrCat(runs),
                    FormatClock(PlannedTrainingSeconds(plan, {.arm = arm})),
                    absl::StrCat(arm.description, arm.both_orders ? "; both orders" : "")});
  }
  PrintTable(rows, out);
  const PlanTime time = EstimateTime(plan, slots, corpus_bytes);
  out << absl::StrFormat(
      "\n%s: %d runs of %s steps (%s tokens), %d at a time on one thread each\n"
      "estimated: %s to prepare the corpus, %s to train, %s to score; %s in total\n",
      plan.name, static_cast<int>(plan.runs.size()), WithThousands(plan.num_steps),
      CompactCount(static_cast<double>(plan.num_tokens_of_run())), slots,
      FormatClock(time.preparation), FormatClock(time.training), FormatClock(time.scoring),
      FormatClock(time.total()));
}

}  // namespace braid
