#include "reproduce/routers/routers_experiment.h"

#include <algorithm>

#include "reproduce/routers/routers_claims.h"

namespace braid {
namespace {

constexpr char kRoutersIntroduction[] =
    "Whether soft merging (<em>Lory</em>, arXiv 2405.03133) has a lower loss than other routers of "
    "the same experts, in similarity and in random order. Effects are differences that are "
    "positive where soft merging is better.";

constexpr char kRoutersLimits[] =
    "Judged at equal tokens. All arms but dense have equal parameters, apart from those of gates; "
    "dense has one expert per layer. All arms have the same learning rate, which was chosen for "
    "dense and soft merging.";

constexpr int32_t kRouterExperts = 8;
constexpr int32_t kExpertUnits = 256;
constexpr int32_t kPoolExperts = 4;
constexpr double kBalance = 0.01;

v1::RoutingConfig* RoutingOf(ArmDefinition* arm) {
  return arm->settings.mutable_model()->mutable_routing();
}

ArmDefinition DenseArm(std::string name, std::string description, double tokens_per_second) {
  ArmDefinition arm{.name = std::move(name),
                    .description = std::move(description),
                    .tokens_per_second = tokens_per_second};
  RoutingOf(&arm)->set_router(v1::DENSE);
  RoutingOf(&arm)->set_segment_length(64);
  return arm;
}

ArmDefinition ExpertArm(std::string name, std::string description, v1::Router router,
                        double tokens_per_second) {
  ArmDefinition arm{.name = std::move(name),
                    .description = std::move(description),
                    .tokens_per_second = tokens_per_second};
  RoutingOf(&arm)->set_router(router);
  RoutingOf(&arm)->set_num_experts(kRouterExperts);
  RoutingOf(&arm)->set_segment_length(64);
  arm.settings.mutable_upcycling()->set_dense_fraction(0.05);
  return arm;
}

ArmDefinition TokenArm(std::string name, std::string description, v1::TokenRouting::Gate gate,
                       double tokens_per_second) {
  ArmDefinition arm =
      ExpertArm(std::move(name), std::move(description), v1::TOKEN_CHOICE, tokens_per_second);
  v1::TokenRouting* const token = RoutingOf(&arm)->mutable_token();
  token->set_gate(gate);
  const auto rival =
      std::ranges::find(RouterRivals(), arm.name, [](const RouterRival& r) { return r.name; });
  token->set_active_experts(rival->active_experts);
  token->set_expert_d_ff(kExpertUnits);
  if (gate == v1::TokenRouting::LINEAR) token->set_balance_loss(kBalance);
  return arm;
}

std::vector<ArmDefinition> RouterArms() {
  using Token = v1::TokenRouting;
  // With one chosen expert, the softmax over the chosen gives its gate no gradient.
  ArmDefinition top_1 = TokenArm("top-1", "best expert of each token", Token::LINEAR, 13000);
  RoutingOf(&top_1)->mutable_token()->set_combine_weights(Token::CHOSEN_OF_SOFTMAX);
  ArmDefinition pool =
      TokenArm("expert-pool", "as top-2, four experts per document", Token::LINEAR, 11000);
  RoutingOf(&pool)->mutable_token()->set_document_pool(kPoolExperts);
  RoutingOf(&pool)->set_segment_boundaries(v1::RoutingConfig::DOCUMENT);
  ArmDefinition wide = DenseArm("dense-wide", "one FFN with the units of all experts", 7000);
  wide.settings.mutable_model()->set_d_ff(kRouterExperts * kExpertUnits);
  std::vector<ArmDefinition> arms = {
      DenseArm("dense", "one FFN per layer with the shape of one expert", 19700),
      ExpertArm(kSoftMerging, "8 experts merged per segment of 64", v1::CAUSAL_SEGMENT, 17000),
      ExpertArm("expert-choice", "expert choice by token, capacity 1", v1::EXPERT_CHOICE_TOKEN,
                14500),
      top_1,
      TokenArm("top-2", "two best experts of each token", Token::LINEAR, 11000),
      TokenArm("relu", "every expert with a positive score, two on average", Token::RELU, 9000),
      pool,
      TokenArm("hash", "two experts by token id", Token::HASH, 11000),
      wide};
  for (ArmDefinition& arm : arms) arm.orders = {v1::SIMILARITY, v1::RANDOM};
  return arms;
}

std::vector<PlannedScore> RouterScores(const PlannedRun& run) {
  const v1::RoutingConfig& routing = run.arm.settings.model().routing();
  return {{.active_experts = routing.token().active_experts()}};
}

Experiment MakeRouters() {
  Experiment experiment{.name = "routers",
                        .title = "Soft merging against other routers",
                        .introduction = kRoutersIntroduction,
                        .limits = kRoutersLimits,
                        .protocol = "docs/reproduction/routers.md",
                        .main_arm = kSoftMerging,
                        .datasets = {{kSimilarityData, v1::SIMILARITY}, {kRandomData, v1::RANDOM}},
                        .arms = RouterArms(),
                        .quick = {.num_steps = 600, .heldout_windows = 1024, .num_seeds = 1},
                        .full = {.num_steps = 2000, .heldout_windows = 2048, .num_seeds = 3},
                        .scores = RouterScores,
                        .claims = EvaluateRouterClaims};
  experiment.settings.mutable_model()->set_preset("tiny");
  experiment.settings.mutable_optimizer()->set_learning_rate(6e-3);
  experiment.settings.mutable_batch()->set_global_batch_size(4);
  return experiment;
}

}  // namespace

const Experiment& RoutersExperiment() {
  static const auto* const experiment = new Experiment(MakeRouters());
  return *experiment;
}

}  // namespace braid
