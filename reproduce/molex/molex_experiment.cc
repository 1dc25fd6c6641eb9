#include "reproduce/molex/molex_experiment.h"

#include <utility>

#include "reproduce/molex/molex_claims.h"
#include "reproduce/tuned_experiment.h"

namespace braid {
namespace {

constexpr char kMolexIntroduction[] =
    "Claims of <em>MoLEx: Mixture of Layer Experts for Finetuning with Sparse Upcycling</em> "
    "(arXiv 2503.11144), tested with models that are trained on this corpus and fine-tuned on "
    "tasks. An effect is the loss of another way of tuning minus that of MoLEx, in nats of the "
    "right answer, so it is positive where MoLEx is better.";

constexpr char kMolexLimits[] =
    "The base models see a few million tokens. Encoders, models of billions of parameters, probes "
    "of layers and most sets of GLUE are not tested.";

// Work of a step with mixing relative to one without, when all layers mix with one or two layers.
constexpr double kMixingWork = 1.9;
constexpr double kWorkOfTwo = 2.8;
// As the largest coefficient of the paper's searches.
constexpr double kMixingBalance = 0.01;

ArmDefinition MixingArm(const std::string& name, const std::string& description,
                        v1::LayerMixing::Gate gate = v1::LayerMixing::LEARNED,
                        double work = kMixingWork) {
  ArmDefinition arm = AdapterArm(name, description);
  v1::LayerMixing* const mixing = arm.settings.mutable_model()->mutable_layer_mixing();
  mixing->set_alpha(0.95);
  mixing->set_gate(gate);
  // With one layer of weight 1 nothing else trains a gate.
  if (gate == v1::LayerMixing::LEARNED) mixing->set_balance_loss(kMixingBalance);
  arm.tokens_per_second /= work;
  return arm;
}

std::vector<ArmDefinition> MolexArms() {
  ArmDefinition longer = AdapterArm("more-steps", "plain, with 1.9 times the passes");
  longer.tuning->epochs = kMixingWork;
  ArmDefinition probability =
      MixingArm("probability", "molex with the layer's probability as its weight");
  probability.settings.mutable_model()->mutable_layer_mixing()->set_weight(
      v1::LayerMixing::PROBABILITY);
  ArmDefinition molex =
      MixingArm(kMolex, "plain, each layer mixed with one that a gate chooses for an example");
  ArmDefinition plain = AdapterArm(kPlainTuning, "adapters of rank 8 on q and v");
  for (ArmDefinition* const arm : {&plain, &molex}) {
    arm->tuning->scorings.front().further = true;
    for (const double noise : kEmbeddingNoises) {
      arm->tuning->scorings.push_back({.name = NoisyScoring(noise), .embedding_noise = noise});
    }
    arm->tuning->extra_tasks = {kTextTask, kNumbersTask, PartialTask(kReviewsTask, kJointPercent)};
  }
  molex.counts_layer_choices = true;
  ArmDefinition two =
      MixingArm("two-layers", "molex with two chosen layers", v1::LayerMixing::LEARNED, kWorkOfTwo);
  two.settings.mutable_model()->mutable_layer_mixing()->set_num_chosen(2);
  return {plain,
          molex,
          MixingArm("frozen-gate", "molex with a random gate that is not trained",
                    v1::LayerMixing::FROZEN),
          MixingArm("random-layer", "molex with random layers", v1::LayerMixing::RANDOM),
          longer,
          two,
          probability,
          MixingArm("own-layer", "molex with each layer itself, the same function as plain",
                    v1::LayerMixing::OWN_LAYER, /*work=*/1)};
}

Experiment MakeMolex() {
  Experiment experiment = TunedExperiment();
  experiment.name = "molex";
  experiment.title = "Reproduction of MoLEx";
  experiment.introduction = kMolexIntroduction;
  experiment.limits = kMolexLimits;
  experiment.protocol = "docs/reproduction/molex.md";
  for (ArmDefinition& arm : MolexArms()) experiment.arms.push_back(std::move(arm));
  experiment.claims = EvaluateMolexClaims;
  return experiment;
}

}  // namespace

const Experiment& MolexExperiment() {
  static const auto* const experiment = new Experiment(MakeMolex());
  return *experiment;
}

}  // namespace braid
