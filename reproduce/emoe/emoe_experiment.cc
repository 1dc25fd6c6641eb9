#include "reproduce/emoe/emoe_experiment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "reproduce/emoe/emoe_claims.h"
#include "reproduce/tuned_experiment.h"

namespace braid {
namespace {

constexpr char kEmoeIntroduction[] =
    "Claims of <em>Unlocking Emergent Modularity in Large Language Models</em> (EMoE, arXiv "
    "2310.10908), tested with models that are trained on this corpus and fine-tuned on tasks. An "
    "effect is the loss of another way of tuning minus that of EMoE, in nats of the right answer, "
    "so it is positive where EMoE is better.";

constexpr char kEmoeLimits[] =
    "The base models see a few million tokens. Encoders, T5, models of billions of parameters and "
    "most sets of GLUE and GLUE-X are not tested.";

constexpr int32_t kEmoeExperts = 16;

// An arm that --quick leaves out.
constexpr char kCopies[] = "copies";

// Half of 16 experts of the last layer but one, by clustered keys.
v1::ExpertSplit EmoeSplit(v1::ExpertSplit::Method method = v1::ExpertSplit::KEYS) {
  v1::ExpertSplit split;
  split.set_num_experts(kEmoeExperts);
  split.set_active_experts(kEmoeExperts / 2);
  split.set_method(method);
  split.add_layers(-2);
  return split;
}

// The quarter of the experts that tokens choose in every layer, to be measured.
v1::ExpertSplit MeasuredSplit() {
  v1::ExpertSplit split = EmoeSplit();
  split.set_active_experts(kEmoeExperts / 4);
  split.clear_layers();
  return split;
}

ArmDefinition SplitArm(const std::string& name, const std::string& description,
                       v1::ExpertSplit split) {
  ArmDefinition arm = AdapterArm(name, description);
  arm.tuning->split = std::move(split);
  return arm;
}

// Returns emoe with another number of experts, of which tokens use `active`.
ArmDefinition SizeArm(const std::string& name, int32_t num_experts, int32_t active) {
  v1::ExpertSplit split = EmoeSplit();
  split.set_num_experts(num_experts);
  split.set_active_experts(active);
  return SplitArm(name, absl::StrCat("emoe with ", active, " of ", num_experts, " experts"), split);
}

ArmDefinition SelectionArm(const std::string& name, const std::string& description,
                           v1::TokenRouting::Selection selection) {
  ArmDefinition arm = SizeArm(name, kEmoeExperts, kEmoeExperts / 4);
  arm.description = description;
  arm.settings.mutable_model()->mutable_routing()->mutable_token()->set_selection(selection);
  return arm;
}

// Returns the arm with all parameters trained, at a lower rate.
ArmDefinition FullTuning(ArmDefinition arm) {
  arm.description = arm.name + " with all parameters trained instead of adapters";
  arm.name = "full-" + arm.name;
  arm.settings.mutable_finetuning()->clear_lora();
  arm.settings.mutable_optimizer()->set_learning_rate(5e-4);
  arm.tuning->scorings = {{}};
  arm.tuning->extra_tasks.clear();
  arm.tokens_per_second = 5500;
  return arm;
}

// Returns the arm with a trained cosine gate whose scores weight the experts.
ArmDefinition LearnedGate(const std::string& name, const std::string& description,
                          v1::ExpertSplit split) {
  split.set_gate(v1::TokenRouting::COSINE);
  ArmDefinition arm = SplitArm(name, description, std::move(split));
  v1::TokenRouting* const token = arm.settings.mutable_model()->mutable_routing()->mutable_token();
  // With weights of 1 the task would not train the gate.
  token->set_combine_weights(v1::TokenRouting::SOFTMAX_OF_CHOSEN);
  token->set_balance_loss(0.01);
  arm.settings.mutable_finetuning()->add_train("*router*");
  return arm;
}

ArmDefinition CopiesArm() {
  v1::ExpertSplit split = EmoeSplit(v1::ExpertSplit::COPIES);
  split.set_num_experts(4);
  split.set_active_experts(2);
  ArmDefinition arm = LearnedGate(
      kCopies, "learned-gate with 2 of 4 copies of the FFN, which are trained", std::move(split));
  arm.settings.mutable_finetuning()->add_train("model.layers.4.mlp.*");
  arm.tokens_per_second = 5500;
  return arm;
}

ArmDefinition LayersArm(const std::string& name, const std::string& description,
                        const std::vector<int32_t>& layers) {
  v1::ExpertSplit split = EmoeSplit();
  split.mutable_layers()->Assign(layers.begin(), layers.end());
  return SplitArm(name, description, split);
}

std::vector<std::string> ExtraTasks() {
  std::vector<std::string> names = {kTopicTask, kTextTask, kNumbersTask, kJointTask,
                                    PartialTask(kTextTask, kJointPercent)};
  for (const AskedTask& task : OwnTasks()) names.push_back(PartialTask(task.asked, 10));
  for (const AskedTask& task : JointTasks()) names.push_back(task.tuned_on);
  return names;
}

// Returns the base model before training: one step at a rate that changes nothing.
ArmDefinition InitialArm(ArmDefinition base) {
  base.name = kInitialBase;
  base.description = "the base model before training";
  base.length = 0;
  base.settings.mutable_optimizer()->set_learning_rate(1e-12);
  return base;
}

std::vector<ArmDefinition> EmoeArms() {
  ArmDefinition plain = AdapterArm(kPlainTuning, "adapters of rank 8 on q and v");
  plain.tuning->scorings.front().further = true;
  plain.tuning->scorings.push_back({.name = kRoutedAtTest, .split = EmoeSplit()});
  plain.tuning->extra_tasks = ExtraTasks();
  ArmDefinition emoe =
      SplitArm(kEmoe, "plain, with 8 of 16 experts in the last layer but one", EmoeSplit());
  emoe.tuning->scorings.front().further = true;
  emoe.tuning->scorings.push_back({.name = kRecomposed, .active_experts = kEmoeExperts});
  emoe.tuning->extra_tasks = ExtraTasks();
  ArmDefinition dropout = AdapterArm("dropout", "plain, with dropout 0.1 on hidden units");
  dropout.settings.mutable_model()->mutable_dropout()->set_kind(v1::DropoutConfig::BERNOULLI);
  dropout.settings.mutable_model()->mutable_dropout()->set_rate(0.1);
  std::vector<ArmDefinition> arms = {
      plain,
      emoe,
      dropout,
      SplitArm("contiguous", "emoe with experts in the order of the units",
               EmoeSplit(v1::ExpertSplit::CONTIGUOUS)),
      SplitArm("random", "emoe with random groups of units", EmoeSplit(v1::ExpertSplit::RANDOM)),
      LayersArm("every-layer", "emoe in all layers", {}),
      FullTuning(plain),
      FullTuning(emoe),
      LearnedGate(kLearnedGate, "emoe with a trained cosine gate whose scores weight the experts",
                  EmoeSplit()),
      CopiesArm(),
      LayersArm("second-layer", "emoe in the second layer", {1}),
      LayersArm("two-layers", "emoe in the last layer but one and the second", {-2, 1}),
      SizeArm(kQuarter, kEmoeExperts, kEmoeExperts / 4),
      SelectionArm("not-top-4", "top-4 with the 4 experts after the chosen ones",
                   v1::TokenRouting::NOT_TOP),
      SelectionArm("bottom-4", "top-4 with the 4 lowest scores", v1::TokenRouting::BOTTOM),
      SizeArm("8-experts", 8, 4),
      SizeArm("32-experts", 32, 16)};
  for (ArmDefinition& arm : arms) {
    if (arm.name == kEmoe || arm.name == kLearnedGate) arm.measured_experts.emplace();
  }
  const auto first = std::ranges::find(arms, kLearnedGate, &ArmDefinition::name);
  for (auto arm = first; arm != arms.end(); ++arm) arm->full_only = true;
  return arms;
}

Experiment MakeEmoe() {
  Experiment experiment = TunedExperiment();
  experiment.name = "emoe";
  experiment.title = "Reproduction of EMoE";
  experiment.introduction = kEmoeIntroduction;
  experiment.limits = kEmoeLimits;
  experiment.protocol = "docs/reproduction/emoe.md";
  experiment.text_beams = 1;
  experiment.arms.front().measured_experts = MeasuredSplit();
  experiment.arms.push_back(InitialArm(experiment.arms.front()));
  for (ArmDefinition& arm : EmoeArms()) experiment.arms.push_back(std::move(arm));
  experiment.claims = EvaluateEmoeClaims;
  return experiment;
}

}  // namespace

const Experiment& EmoeExperiment() {
  static const auto* const experiment = new Experiment(MakeEmoe());
  return *experiment;
}

}  // namespace braid
