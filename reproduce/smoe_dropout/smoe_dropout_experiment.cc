#include "reproduce/smoe_dropout/smoe_dropout_experiment.h"

#include "absl/strings/str_cat.h"
#include "reproduce/smoe_dropout/smoe_dropout_claims.h"

namespace braid {
namespace {

constexpr char kSmoeIntroduction[] =
    "Claims of <em>Sparse MoE as the New Dropout</em> (ICLR 2023), tested on this corpus. N is the "
    "number of experts, k the number that each token uses. Losses are on held-out text after "
    "training that repeats a small text, unless the name says fresh.";

constexpr char kSmoeLimits[] =
    "The models are much smaller than those of the paper, so its numbers are context, not targets. "
    "Models are compared at equal tokens and equal parameters, with one learning rate.";

// A small text that a run repeats, as the paper does (about 50 passes).
constexpr char kRepeatedData[] = "repeated";
constexpr double kPasses = 20;
constexpr char kThor[] = "thor";
// Units of an FFN, of all experts together.
constexpr int32_t kFfnUnits = 1024;

// What differs between arms.
struct SmoeArm {
  std::string name = {};
  std::string description = {};
  v1::TokenRouting::Gate gate = v1::TokenRouting::GATE_UNSPECIFIED;  // unspecified: dense
  // Experts per token, growing from `first` to `last` over the run.
  int32_t first = 0;
  int32_t last = 0;
  int32_t num_experts = kSmoeExperts;
  int32_t num_layers = 4;
  int32_t d_ff = kFfnUnits;
  // Empty: all.
  std::vector<int32_t> moe_layers = {};
  double tokens_per_second = 9000;
};

bool IsDense(const SmoeArm& arm) { return arm.gate == v1::TokenRouting::GATE_UNSPECIFIED; }

void SetRouting(const SmoeArm& arm, v1::RunSpec* settings) {
  v1::RoutingConfig* const routing = settings->mutable_model()->mutable_routing();
  routing->set_router(v1::TOKEN_CHOICE);
  routing->set_num_experts(arm.num_experts);
  for (const int32_t layer : arm.moe_layers) routing->add_moe_layers(layer);
  routing->mutable_token()->set_gate(arm.gate);
  routing->mutable_token()->set_active_experts(arm.last);
  if (arm.first == arm.last) return;
  settings->mutable_growth()->set_first(arm.first);
  settings->mutable_growth()->set_last(arm.last);
}

ArmDefinition SmoeDefinition(const SmoeArm& arm) {
  ArmDefinition definition{.name = arm.name,
                           .description = arm.description,
                           .orders = {v1::RANDOM},
                           .dataset = kRepeatedData,
                           .tokens_per_second = arm.tokens_per_second * 4 / arm.num_layers};
  if (arm.num_layers != 4) definition.settings.mutable_model()->set_num_layers(arm.num_layers);
  if (arm.d_ff != kFfnUnits) definition.settings.mutable_model()->set_d_ff(arm.d_ff);
  if (IsDense(arm)) {
    definition.settings.mutable_model()->mutable_routing()->set_router(v1::DENSE);
  } else {
    SetRouting(arm, &definition.settings);
  }
  return definition;
}

ArmDefinition WithDropout(ArmDefinition arm, v1::DropoutConfig::Kind kind) {
  arm.settings.mutable_model()->mutable_dropout()->set_kind(kind);
  arm.settings.mutable_model()->mutable_dropout()->set_rate(0.1);
  return arm;
}

ArmDefinition Fresh(ArmDefinition arm) {
  absl::StrAppend(&arm.name, "-fresh");
  absl::StrAppend(&arm.description, ", text that is not repeated");
  arm.dataset.clear();
  return arm;
}

ArmDefinition FullOnly(ArmDefinition arm) {
  arm.full_only = true;
  return arm;
}

// The arms of claims 1 and 2.
std::vector<ArmDefinition> MainArms() {
  const SmoeArm dense{.name = "dense", .description = "one FFN per layer, no dropout"};
  const ArmDefinition dropout =
      WithDropout(SmoeDefinition({.name = "dense-dropout", .description = "dense, dropout 0.1"}),
                  v1::DropoutConfig::BERNOULLI);
  const ArmDefinition smoe = SmoeDefinition({.name = "smoe-dropout",
                                             .description = "frozen random gate, k from 8 to 16",
                                             .gate = v1::TokenRouting::FROZEN,
                                             .first = 8,
                                             .last = 16});
  ArmDefinition thor = SmoeDefinition({.name = kThor,
                                       .description = "two passes with 2 random experts each",
                                       .gate = v1::TokenRouting::RANDOM,
                                       .first = 2,
                                       .last = 2,
                                       .tokens_per_second = 7000});
  thor.settings.mutable_model()->set_consistency_loss(2);
  return {smoe,
          dropout,
          SmoeDefinition({.name = "learned",
                          .description = "learned gate, k 2",
                          .gate = v1::TokenRouting::LINEAR,
                          .first = 2,
                          .last = 2,
                          .tokens_per_second = 13000}),
          WithDropout(SmoeDefinition({.name = "dense-concrete",
                                      .description = "dense, concrete dropout from 0.1"}),
                      v1::DropoutConfig::CONCRETE),
          WithDropout(
              SmoeDefinition({.name = "dense-dropblock", .description = "dense, DropBlock 0.1"}),
              v1::DropoutConfig::DROP_BLOCK),
          thor,
          SmoeDefinition(dense),
          Fresh(smoe),
          Fresh(dropout),
          Fresh(SmoeDefinition(dense))};
}

// The arms that each leave out one part of the method.
std::vector<ArmDefinition> AblationArms() {
  using Routing = v1::TokenRouting;
  ArmDefinition as_printed =
      SmoeDefinition({.name = "as-printed",
                      .description = "smoe-dropout with the softmax of eq. 1",
                      .gate = Routing::FROZEN,
                      .first = 8,
                      .last = 16});
  as_printed.settings.mutable_model()->mutable_routing()->mutable_token()->set_combine_weights(
      Routing::CHOSEN_OF_SOFTMAX);
  return {SmoeDefinition({.name = "learned-half",
                          .description = "learned gate, k 8",
                          .gate = Routing::LINEAR,
                          .first = 8,
                          .last = 8}),
          SmoeDefinition({.name = "fixed-k",
                          .description = "frozen gate, k 8",
                          .gate = Routing::FROZEN,
                          .first = 8,
                          .last = 8}),
          SmoeDefinition({.name = "random-each-step",
                          .description = "new random experts at every step, k from 8 to 16",
                          .gate = Routing::RANDOM,
                          .first = 8,
                          .last = 16}),
          SmoeDefinition({.name = "hash",
                          .description = "experts by token id, k from 8 to 16",
                          .gate = Routing::HASH,
                          .first = 8,
                          .last = 16}),
          SmoeDefinition({.name = "learned-growing",
                          .description = "learned gate, k from 8 to 16",
                          .gate = Routing::LINEAR,
                          .first = 8,
                          .last = 16}),
          SmoeDefinition({.name = "from-1",
                          .description = "frozen gate, k from 1 to 16",
                          .gate = Routing::FROZEN,
                          .first = 1,
                          .last = 16}),
          as_printed};
}

// The arms of the claim on the layers that are routed.
std::vector<ArmDefinition> PlaceArms() {
  std::vector<ArmDefinition> arms;
  const std::vector<std::pair<std::string, std::vector<int32_t>>> places = {
      {"early-layers", {0, 1}}, {"later-layers", {2, 3}}, {"every-2-layers", {1, 3}}};
  for (const auto& [name, layers] : places) {
    arms.push_back(SmoeDefinition({.name = name,
                                   .description = "smoe-dropout in two layers",
                                   .gate = v1::TokenRouting::FROZEN,
                                   .first = 8,
                                   .last = 16,
                                   .moe_layers = layers}));
  }
  return arms;
}

// The method and its partners, dense with dropout and with a learned gate, of one size.
struct SizedArms {
  ArmDefinition dropout, learned, smoe;
};

// `size` has no name, gate and k of its own.
SizedArms ArmsOfSize(SmoeArm size, const std::string& suffix, const std::string& text) {
  const auto named = [&](const std::string& name, const std::string& description) {
    size.name = name + suffix;
    size.description = description + text;
    return SmoeDefinition(size);
  };
  SizedArms arms;
  arms.dropout =
      WithDropout(named("dense-dropout", "dense, dropout 0.1"), v1::DropoutConfig::BERNOULLI);
  size.gate = v1::TokenRouting::LINEAR;
  size.first = size.last = 2;
  arms.learned = named("learned", "learned gate, k 2");
  size.gate = v1::TokenRouting::FROZEN;
  size.first = size.num_experts / 2;
  size.last = size.num_experts;
  arms.smoe = named("smoe-dropout", "smoe-dropout");
  return arms;
}

// The arms of the claims on depth.
std::vector<ArmDefinition> DepthArms() {
  std::vector<ArmDefinition> arms;
  for (const int32_t depth : {2, 8}) {
    const std::string suffix = absl::StrCat("-depth-", depth);
    const std::string text = absl::StrCat(", ", depth, " layers");
    arms.push_back(SmoeDefinition(
        {.name = "dense" + suffix, .description = "dense" + text, .num_layers = depth}));
    const SizedArms sized = ArmsOfSize({.num_layers = depth}, suffix, text);
    arms.insert(arms.end(), {sized.dropout, sized.learned, sized.smoe});
  }
  return arms;
}

// The arms of the claim on the number of experts, which are larger or, as in the paper, in smaller
// FFNs.
std::vector<ArmDefinition> ExpertArms() {
  std::vector<ArmDefinition> arms;
  for (const int32_t experts : {4, 8}) {
    arms.push_back(SmoeDefinition(
        {.name = absl::StrCat("smoe-dropout-experts-", experts),
         .description = absl::StrCat("smoe-dropout, ", experts, " experts, k from half to all"),
         .gate = v1::TokenRouting::FROZEN,
         .first = experts / 2,
         .last = experts,
         .num_experts = experts}));
  }
  for (const int32_t experts : {4, 8}) {
    const int32_t units = kFfnUnits / kSmoeExperts * experts;
    const SizedArms sized = ArmsOfSize({.num_experts = experts,
                                        .d_ff = units,
                                        .tokens_per_second = experts == 4 ? 16000.0 : 12000.0},
                                       absl::StrCat("-ffn-", units),
                                       absl::StrCat(", F ", units, " (", experts, " experts)"));
    arms.insert(arms.end(), {sized.smoe, sized.dropout, sized.learned});
  }
  return arms;
}

std::vector<ArmDefinition> SmoeArms() {
  std::vector<ArmDefinition> arms = MainArms();
  const std::vector<ArmDefinition> ablations = AblationArms();
  arms.insert(arms.end(), ablations.begin(), ablations.end());
  for (const auto& more : {PlaceArms(), DepthArms(), ExpertArms()}) {
    for (const ArmDefinition& arm : more) arms.push_back(FullOnly(arm));
  }
  return arms;
}

// Returns the scorings with 1, 2, 4, ... up to all experts, all first. Random experts are scored
// only together, except those of the arm whose loss is claimed not to fall with k.
std::vector<PlannedScore> SmoeScores(const PlannedRun& run) {
  const PlannedScore score{.first_positions = kUnscoredPositions};
  const v1::RoutingConfig& routing = run.arm.settings.model().routing();
  if (routing.router() != v1::TOKEN_CHOICE) return {score};
  std::vector<PlannedScore> scores;
  for (int32_t active = routing.num_experts(); active >= 1; active /= 2) {
    scores.push_back(score);
    scores.back().active_experts = active;
    const bool random = routing.token().gate() == v1::TokenRouting::RANDOM;
    if (random && run.arm.name != kThor) break;
  }
  return scores;
}

Experiment MakeSmoeDropout() {
  Experiment experiment{
      .name = "smoe-dropout",
      .title = "Reproduction of SMoE-Dropout",
      .introduction = kSmoeIntroduction,
      .limits = kSmoeLimits,
      .protocol = "docs/reproduction/smoe_dropout.md",
      .sequence_length = 256,
      .main_arm = "smoe-dropout",
      .datasets = {{.name = kRandomData, .order = v1::RANDOM},
                   {.name = kRepeatedData, .order = v1::RANDOM, .passes = kPasses}},
      .arms = SmoeArms(),
      .quick = {.num_steps = 300, .heldout_windows = 512, .num_seeds = 1},
      .full = {.num_steps = 500, .heldout_windows = 512, .num_seeds = 3},
      .scores = SmoeScores,
      .claim_settings = {.segment_length = kUnscoredPositions},
      .claims = EvaluateSmoeClaims};
  v1::ModelConfig* const model = experiment.settings.mutable_model();
  model->set_preset("tiny");
  model->set_d_ff(kFfnUnits);
  model->set_sequence_length(256);
  // Training losses of dense models leave out a segment, all others this many positions.
  model->mutable_routing()->set_segment_length(kUnscoredPositions);
  experiment.settings.mutable_optimizer()->set_learning_rate(6e-3);
  experiment.settings.mutable_batch()->set_global_batch_size(8);
  return experiment;
}

}  // namespace

const Experiment& SmoeDropoutExperiment() {
  static const auto* const experiment = new Experiment(MakeSmoeDropout());
  return *experiment;
}

}  // namespace braid
