#include "reproduce/lory/lory_experiment.h"

#include "reproduce/lory/claims.h"

namespace braid {
namespace {

constexpr char kLoryIntroduction[] =
    "Claims of <em>Lory</em> (arXiv 2405.03133v2) and two further claims, tested on this corpus. "
    "Effects are differences that are positive in the direction of the claim, except in claim 8, "
    "which states that two losses are about equal.";

constexpr char kLoryLimits[] =
    "The models are hundreds of times smaller than those of the paper and train on tens of "
    "thousands of times less text, so the numbers of the paper are context, not targets. "
    "Models are compared at equal tokens and equal active parameters, not at equal computation. "
    "All arms use the learning rate that was chosen for the dense model and the MoE.";

// What differs between arms.
struct LoryArm {
  std::string name = {};
  std::string description = {};
  v1::Router router = v1::CAUSAL_SEGMENT;
  int32_t num_experts = 8;
  int32_t segment_length = 64;
  v1::FirstSegment first_segment = v1::SELF_STOP_GRADIENT;
  // Dense warm-up, then upcycling; false: separate experts from the first step.
  bool dense_warmup = true;
  bool both_orders = false;
  double tokens_per_second = 17000;
};

ArmDefinition LoryDefinition(const LoryArm& arm) {
  ArmDefinition definition{
      .name = arm.name, .description = arm.description, .tokens_per_second = arm.tokens_per_second};
  v1::RoutingConfig* const routing = definition.settings.mutable_model()->mutable_routing();
  routing->set_router(arm.router);
  routing->set_num_experts(arm.num_experts);
  routing->set_segment_length(arm.segment_length);
  routing->set_first_segment(arm.first_segment);
  if (arm.num_experts > 1) {
    // -1 and not 0, which means the same: the id of the request digests the spec, and a
    // reproduction that an earlier version began must find its runs.
    definition.settings.mutable_upcycling()->set_dense_fraction(arm.dense_warmup ? 0.05 : -1);
  }
  if (arm.both_orders) definition.orders.push_back(v1::RANDOM);
  return definition;
}

std::vector<ArmDefinition> LoryArms() {
  const std::vector<LoryArm> arms = {
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
  std::vector<ArmDefinition> definitions;
  for (const LoryArm& arm : arms) definitions.push_back(LoryDefinition(arm));
  return definitions;
}

bool IsMain(const PlannedRun& run) {
  return run.order == v1::SIMILARITY && (run.arm.name == arm::kDense || run.arm.name == arm::kMoe);
}

Experiment MakeLory() {
  Experiment experiment{.name = "lory",
                        .title = "Reproduction of Lory",
                        .introduction = kLoryIntroduction,
                        .limits = kLoryLimits,
                        .protocol = "docs/reproduction/protocol.md",
                        .main_arm = arm::kMoe,
                        .datasets = {{kSimilarityData, v1::SIMILARITY}, {kRandomData, v1::RANDOM}},
                        .arms = LoryArms(),
                        .quick = {.num_steps = 600, .heldout_windows = 1024, .num_seeds = 1},
                        .full = {.num_steps = 2000, .heldout_windows = 2048, .num_seeds = 3},
                        .scores = LoryScores,
                        .claims = EvaluateLoryClaims};
  experiment.settings.mutable_model()->set_preset("tiny");
  experiment.settings.mutable_optimizer()->set_learning_rate(6e-3);
  experiment.settings.mutable_batch()->set_global_batch_size(4);
  return experiment;
}

}  // namespace

const Experiment& LoryExperiment() {
  static const auto* const experiment = new Experiment(MakeLory());
  return *experiment;
}

std::vector<PlannedScore> LoryScores(const PlannedRun& run) {
  const int32_t segment_length = run.arm.settings.model().routing().segment_length();
  if (segment_length != 64) return {{ScoredRouting::kSegment, kLongestSegment}};
  std::vector<PlannedScore> scores = {{}};
  if (!IsMain(run)) return scores;
  scores.push_back({ScoredRouting::kSegment, kLongestSegment});
  if (run.arm.name != arm::kMoe) return scores;
  for (const ScoredRouting routing : {ScoredRouting::kPrompt, ScoredRouting::kAverage,
                                      ScoredRouting::kUniform, ScoredRouting::kOtherDomain}) {
    scores.push_back({routing, segment_length});
  }
  return scores;
}

}  // namespace braid
