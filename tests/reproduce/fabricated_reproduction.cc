#include "tests/reproduce/fabricated_reproduction.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "reproduce/lory/claims.h"
#include "reproduce/lory/lory_experiment.h"

namespace braid {
namespace {

constexpr int kWindows = 40, kLayers = 4, kLength = 512;

// The gain of each arm over dense in similarity order, in nats per token.
const std::map<std::string, double>& Gains() {
  static const auto* const gains =
      new std::map<std::string, double>{{arm::kDense, 0},         {arm::kMoe, 0.1},
                                        {arm::kPrefix, 0.03},     {arm::kExpertChoiceSegment, 0.04},
                                        {arm::kNoWarmup, 0.07},   {arm::kExpertChoiceToken, 0.095},
                                        {arm::kExperts4, 0.06},   {arm::kUniformFirst, 0.097},
                                        {arm::kExperts16, 0.125}, {arm::kNoWarmup16, 0.06},
                                        {arm::kSegment32, 0.11},  {arm::kSegment128, 0.08}};
  return *gains;
}

// Offset of the loss of the MoE for each routing.
double LossOfRouting(ScoredRouting routing) {
  switch (routing) {
    case ScoredRouting::kSegment:
      return 0;
    case ScoredRouting::kPrompt:
      return 0.012;
    case ScoredRouting::kAverage:
      return 0.31;
    case ScoredRouting::kUniform:
      return 0.36;
    case ScoredRouting::kOtherDomain:
      return 0.52;
  }
  return 0;
}

class Fabricator {
 public:
  explicit Fabricator(const Fabrication& fabrication) : fabrication_(fabrication), random_(7) {
    const double count = static_cast<double>(fabrication.domains.size());
    for (size_t d = 0; d < fabrication.domains.size(); ++d) {
      const double place = static_cast<double>((3 * d) % fabrication.domains.size()) / count;
      evidence_.domains.push_back({fabrication.domains[d], static_cast<int64_t>(1e5 + 9e5 * place),
                                   0.3 + 0.6 * place, kWindows * kLength});
    }
    for (size_t w = 0; w < kWindows * fabrication.domains.size(); ++w) {
      windows_.push_back(Normal(0.3));
    }
  }

  Evidence Run() {
    ReproductionPlan plan = WithSeeds(FullPlan(LoryExperiment()), fabrication_.num_seeds);
    for (const PlannedRun& run : plan.runs) AddRun(run);
    return std::move(evidence_);
  }

 private:
  void AddRun(const PlannedRun& run) {
    ArmResult result{.arm = run.arm.name,
                     .order = run.order,
                     .seed = run.seed,
                     .num_experts = run.arm.num_experts()};
    const double order = run.order == v1::SIMILARITY ? 1 : 0.4;
    const double gain = Gains().at(run.arm.name) * order +
                        (result.num_experts > 1 ? Normal(fabrication_.seed_deviation) : 0);
    for (const PlannedScore& score : LoryScores(run)) {
      result.heldout.push_back(ScoreOf(run, score, gain));
    }
    for (int step = 1; step <= fabrication_.num_steps; ++step) AddStep(run, gain, step, &result);
    if (result.num_experts > 1) result.routing = RoutingOf(run);
    evidence_.results.push_back(std::move(result));
  }

  HeldoutScore ScoreOf(const PlannedRun& run, const PlannedScore& planned, double gain) {
    HeldoutScore score{.routing = planned.routing, .first_positions = planned.first_positions};
    const double first = planned.first_positions;
    const bool leaks = run.arm.num_experts() > 1 && run.arm.name != arm::kUniformFirst;
    const auto first_tokens = static_cast<int64_t>(planned.first_positions);
    for (size_t d = 0; d < fabrication_.domains.size(); ++d) {
      DomainWindows& domain =
          score.domains.emplace_back(DomainWindows{.domain = fabrication_.domains[d]});
      const double own_gain = gain * (1.9 - 1.5 * evidence_.domains[d].similarity);
      for (int w = 0; w < kWindows; ++w) {
        const double loss = 3.9 + windows_[d * kWindows + w] + Normal(0.02) - own_gain +
                            LossOfRouting(planned.routing);
        domain.windows.push_back({(loss + (leaks ? 0.42 : 0.5)) * first, first_tokens,
                                  loss * (kLength - first), kLength - first_tokens});
      }
    }
    return score;
  }

  void AddStep(const PlannedRun& run, double gain, int step, ArmResult* result) {
    const double share = static_cast<double>(step) / fabrication_.num_steps;
    v1::StepMetrics& metrics = result->metrics.emplace_back();
    metrics.set_step(step);
    metrics.set_num_tokens(static_cast<int64_t>(share * 5.7e6));
    const double batch = 0.15 * std::sin(1.7 * step);
    metrics.set_loss_after_first_segment(3.7 + 3.5 * std::exp(-8 * share) + batch -
                                         1.3 * gain * std::sqrt(share) + Normal(0.03));
    if (result->num_experts < 2 || step % 10 != 0 || share < 0.05) return;
    const double used = (run.arm.settings.upcycling().dense_fraction() > 0) ? 0.95 - 0.1 * share
                                                                            : 0.4 + 0.2 * share;
    for (int layer = 0; layer < kLayers; ++layer) {
      metrics.add_routing()->set_active_experts(
          static_cast<int32_t>(std::clamp(std::round(result->num_experts * (used + Normal(0.05))),
                                          1.0, result->num_experts + 0.0)));
    }
  }

  std::vector<DomainWeights> RoutingOf(const PlannedRun& run) {
    std::vector<DomainWeights> all;
    const int experts = run.arm.num_experts();
    for (size_t d = 0; d < fabrication_.domains.size(); ++d) {
      DomainWeights& weights = all.emplace_back(DomainWeights{.domain = fabrication_.domains[d]});
      for (int layer = 0; layer < kLayers; ++layer) {
        const double sharpness = layer * (run.order == v1::SIMILARITY ? 0.9 : 0.3);
        std::vector<double> row(experts);
        for (int e = 0; e < experts; ++e) {
          row[e] =
              std::exp(sharpness * ((static_cast<int>(d) + layer) % experts == e) + Normal(0.1));
        }
        double sum = 0;
        for (const double weight : row) sum += weight;
        for (double& weight : row) weight /= sum;
        weights.layers.push_back(std::move(row));
      }
    }
    return all;
  }

  double Normal(double deviation) {
    return std::normal_distribution<double>(0, 1)(random_) * deviation;
  }

  const Fabrication& fabrication_;
  std::mt19937_64 random_;
  Evidence evidence_;
  std::vector<double> windows_;
};

// Returns a spec as a service resolves it.
v1::RunSpec ResolvedSpec() {
  const ReproductionPlan plan = QuickPlan(LoryExperiment());
  const auto run = std::ranges::find(plan.runs, std::string(arm::kMoe),
                                     [](const PlannedRun& planned) { return planned.arm.name; });
  v1::RunSpec spec = PlannedRunSpec(plan, *run, {{"similarity", "/data"}, {"random", "/data"}});
  spec.mutable_model()->set_num_layers(kLayers);
  spec.mutable_model()->set_d_model(64);
  spec.mutable_model()->set_d_ff(256);
  spec.mutable_model()->set_sequence_length(kLength);
  spec.mutable_model()->set_vocab_size(2048);
  spec.mutable_optimizer()->set_warmup_fraction(0.05);
  spec.mutable_optimizer()->set_final_lr_ratio(0.1);
  return spec;
}

}  // namespace

Reproduction FabricateReproduction(const Fabrication& fabrication) {
  const Evidence evidence = Fabricator(fabrication).Run();
  Reproduction reproduction{
      .experiment = &LoryExperiment(),
      .plan = fabrication.num_seeds > 1 ? "full" : "quick",
      .command = "braid reproduce corpus.jsonl --full",
      .version = "0.1.0",
      .num_steps = fabrication.num_steps,
      .tokens_of_run = 5734400,
      .corpus_paths = {"/data/corpus.jsonl"},
      .dataset_dirs = {{"similarity", "/home/datasets/similarity"},
                       {"random", "/home/datasets/random"}},
      .heldout_windows = HeldoutWindows(evidence.results),
      .spec = ResolvedSpec(),
      .domains = evidence.domains,
      .notes = {"held-out text of 2 domains is short: intervals there are wide"},
      .claims = EvaluateLoryClaims(evidence, {.bootstrap = {.samples = 300}}),
      .seconds = 4980};
  for (const ArmResult& result : evidence.results) {
    const PlannedRun run{.arm = {.name = result.arm}, .order = result.order, .seed = result.seed};
    const bool lengths = result.arm == arm::kSegment32 || result.arm == arm::kSegment128;
    reproduction.runs.push_back(
        ReproducedRunOf(result, run.name(), "run-" + std::to_string(100 + reproduction.runs.size()),
                        {.first_positions = lengths ? kLongestSegment : 64}));
  }
  return reproduction;
}

}  // namespace braid
