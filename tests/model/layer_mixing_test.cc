// Layers that mix against equation 4 of arXiv 2503.11144 as plain loops over examples and layers.
#include "model/layer_mixing.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/text_format.h"
#include "model/advance.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/kernels/cross_entropy.h"
#include "model/routing/incremental_ffn.h"
#include "model/sequence_state.h"
#include "model/transformer.h"
#include "tests/model/reference_layer_mixing.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace layer_mixing_test {

constexpr int64_t kLength = 12, kVocabulary = 19;
constexpr double kBalanceWeight = 0.7;

struct MixingCase {
  std::string name;
  std::string mixing;  // a LayerMixing, as text
  bool lora = false;
};

void PrintTo(const MixingCase& c, std::ostream* out) { *out << c.name; }

// A double-precision model, and a batch of three examples in two sequences.
class MixingGradientTest : public testing::Test {
 protected:
  void Build(const std::string& mixing, bool lora) {
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "num_layers: 3 d_model: 8 num_heads: 2 d_ff: 12 vocab_size: 19 sequence_length: 12 "
        "routing { num_experts: 1 segment_length: 12 } layer_mixing { " +
            mixing + " }",
        &config_));
    config_ = ResolveModelConfig(config_).value();
    if (lora) {
      finetuning_.mutable_lora()->set_rank(2);
      for (const char* target : {"q", "v", "o", "gate", "up", "down"}) {
        finetuning_.mutable_lora()->add_targets(target);
      }
      finetuning_ = ResolveFinetuning(finetuning_, config_).value();
    }
    at::manual_seed(13);
    layout_ = FinetunedLayout(config_, finetuning_);
    int64_t size = 0, trained = 0;
    for (const ParameterSpec& spec : layout_) {
      size += spec.size;
      if (spec.gradient_offset >= 0) trained += spec.size;
    }
    values_ = at::randn({size}, at::kDouble).mul_(0.4);
    gradients_ = at::zeros({trained}, at::kDouble);
    weights_ = BindWeights(config_, finetuning_, values_, gradients_);
    tables_ = TablesFor(config_, values_.options());
    batch_.tokens = at::randint(0, kVocabulary, {2, kLength}, at::kLong);
    batch_.targets = at::full({2, kLength}, -1, at::kLong);
    visible_ = at::zeros({2, kLength}, at::kInt);
    for (const MixingExample& e : batch_.examples) {
      for (int64_t p = e.begin; p < e.end; ++p) visible_[e.sequence][p] = e.begin;
      for (int64_t p = e.begin + e.prompt - 1; p + 1 < e.end; ++p) {
        batch_.targets[e.sequence][p] = batch_.tokens[e.sequence][p + 1];
      }
    }
  }

  at::Tensor Loss() const {
    RoutingContext context;
    context.counted = batch_.targets.ge(0).to(at::kFloat);
    const HiddenStates states = RunTransformer(config_, weights_, tables_, batch_.tokens,
                                               MergeMode::kTraining, context, visible_);
    const at::Tensor loss =
        CrossEntropy(states.hidden, weights_.head, batch_.targets.flatten(), 1).total;
    return states.mixing_loss.defined() ? loss + states.mixing_loss.sum() * kBalanceWeight : loss;
  }

  MixingParameters NamedCopies() const {
    MixingParameters copies;
    for (const ParameterSpec& spec : layout_) {
      copies[spec.name] =
          values_.narrow(0, spec.offset, spec.size).view(spec.shape).clone().requires_grad_();
    }
    return copies;
  }

  MixingBatch batch_ = {.examples = {{0, 0, 7, 3}, {0, 7, 12, 2}, {1, 0, 12, 5}}};
  v1::ModelConfig config_;
  v1::Finetuning finetuning_;
  std::vector<ParameterSpec> layout_;
  at::Tensor values_, gradients_, visible_;
  TransformerWeights weights_;
  AttentionTables tables_;
};

class LayerMixingTest : public MixingGradientTest,
                        public testing::WithParamInterface<MixingCase> {};

TEST_P(LayerMixingTest, EqualsPlainLoopsInLossAndAllGradients) {
  Build(GetParam().mixing, GetParam().lora);
  const MixingParameters parameters = NamedCopies();
  const at::Tensor expected =
      ReferenceMixingLoss(config_, finetuning_, parameters, batch_, kBalanceWeight);
  const at::Tensor loss = Loss();
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-9);
  expected.backward();
  loss.backward();
  for (const ParameterSpec& spec : layout_) {
    if (!spec.trained) continue;
    const at::Tensor got = gradients_.narrow(0, spec.gradient_offset, spec.size).view(spec.shape);
    const at::Tensor& gradient = parameters.at(spec.name).grad();
    if (!gradient.defined()) {
      EXPECT_EQ(got.abs().max().item<double>(), 0) << spec.name;
    } else {
      EXPECT_LT(MaxDifference(got, gradient), 1e-9) << spec.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, LayerMixingTest,
    testing::Values(
        MixingCase{"Sequence", "alpha: 0.6"}, MixingCase{"SequenceLora", "alpha: 0.6", true},
        MixingCase{"SequenceTwo", "alpha: 0.6 num_chosen: 2", true},
        MixingCase{"SequenceBalance", "alpha: 0.6 balance_loss: 0.1", true},
        MixingCase{"SequenceProbability", "alpha: 0.6 weight: PROBABILITY", true},
        MixingCase{"SequenceSigmoidTwo",
                   "alpha: 0.3 weight: PROBABILITY probability: SIGMOID num_chosen: 2"},
        MixingCase{"Token", "alpha: 0.6 decision: TOKEN", true},
        MixingCase{"TokenProbability", "alpha: 0.6 decision: TOKEN weight: PROBABILITY", true},
        MixingCase{"TokenBalance",
                   "alpha: 0.6 decision: TOKEN num_chosen: 2 balance_loss: 0.1 learn_alpha: true"},
        MixingCase{"CosineOwnGates",
                   "alpha: 0.5 decision: TOKEN weight: PROBABILITY score: COSINE own_gates: true"},
        MixingCase{"BatchMode", "alpha: 0.6 decision: BATCH_MODE weight: PROBABILITY"},
        MixingCase{"BatchModeOne", "alpha: 0.6 decision: BATCH_MODE", true},
        MixingCase{"BatchModeBalance", "alpha: 0.6 decision: BATCH_MODE balance_loss: 0.1"},
        MixingCase{"BatchMeanBalance",
                   "alpha: 0.6 decision: BATCH_MEAN num_chosen: 2 balance_loss: 0.1"},
        MixingCase{"BatchMeanProbability",
                   "alpha: 0.6 decision: BATCH_MEAN weight: PROBABILITY num_chosen: 2"},
        MixingCase{"BatchMean", "alpha: 0.6 decision: BATCH_MEAN num_chosen: 2", true},
        MixingCase{"SomeLayers", "layers: -1 layers: 0 alpha: 0.4 weight: PROBABILITY", true},
        MixingCase{"Frozen", "alpha: 0.6 gate: FROZEN weight: PROBABILITY"},
        MixingCase{"Fixed", "alpha: 0.7 learn_alpha: true gate: FIXED fixed: 2 fixed: 1 fixed: -3",
                   true}),
    [](const auto& tested) { return tested.param.name; });

// A small step changes no choice.
TEST_F(MixingGradientTest, ProbabilitiesPassTheGradientOfDifferencesToTheGate) {
  for (const char* decision : {"SEQUENCE", "TOKEN", "BATCH_MEAN"}) {
    Build(std::string("alpha: 0.3 weight: PROBABILITY decision: ") + decision, false);
    const MixingGate& gate = weights_.mixing.gates[0];
    EXPECT_LT(FiniteDifferenceError([&] { return Loss(); }, {gate.weight, gate.bias}, 12), 1e-6)
        << decision;
  }
}

TEST_F(MixingGradientTest, WeightsOfOneGiveTheGateNoGradientAtAll) {
  for (const char* decision : {"SEQUENCE", "TOKEN", "BATCH_MODE", "BATCH_MEAN"}) {
    Build(std::string("alpha: 0.3 decision: ") + decision, false);
    Loss().backward();
    for (const ParameterSpec& spec : layout_) {
      if (spec.group != "layer_mixing") continue;
      const at::Tensor got = gradients_.narrow(0, spec.gradient_offset, spec.size);
      EXPECT_TRUE(got.eq(0).all().item<bool>()) << decision << " " << spec.name;
    }
  }
}

// An FFN that cannot be computed.
class FailingFfn final : public IncrementalFfn {
 public:
  at::Tensor AddFfn(const at::Tensor&, const at::Tensor&, const at::Tensor&) override {
    TORCH_CHECK(false, "not enough memory");
    return {};
  }
  at::Tensor AddBranchFfn(const at::Tensor& h, const at::Tensor&,
                          const at::Tensor&) const override {
    return h;
  }
  std::unique_ptr<IncrementalFfn> Clone() const override { return std::make_unique<FailingFfn>(); }
};

TEST_F(MixingGradientTest, LayerThatFailedToCatchUpCatchesUpInTheNextCall) {
  Build("alpha: 0.3 decision: TOKEN", false);
  const at::NoGradGuard guard;
  const ModelTensors model{config_, weights_, tables_};
  SequenceState sequence;
  sequence.config = &config_;
  sequence.tokens = {3, 1, 4, 1, 5};
  MixingState mixing, unharmed;
  mixing.inputs = unharmed.inputs = at::randn({kLength, 8}, at::kDouble);
  LayerState failing = NewLayerState(model, 1, sequence.mode);
  failing.ffn = std::make_unique<FailingFfn>();
  mixing.others.emplace(1, std::move(failing));
  EXPECT_THROW(OtherLayer(model, 1, 5, &sequence, &mixing), c10::Error);
  EXPECT_TRUE(mixing.others.empty());
  const LayerState& again = *OtherLayer(model, 1, 5, &sequence, &mixing);
  const LayerState& expected = *OtherLayer(model, 1, 5, &sequence, &unharmed);
  EXPECT_EQ(again.position, 5);
  EXPECT_TRUE(at::equal(again.keys.narrow(1, 0, 5), expected.keys.narrow(1, 0, 5)));
  EXPECT_TRUE(at::equal(again.values.narrow(1, 0, 5), expected.values.narrow(1, 0, 5)));
}

// Theorem 1 of arXiv 2503.11144 on linear models f_j(x) = W_j x: the distance of x from the nearest
// decision boundary, min_i (e_y - e_i)^T f(x) / |W^T (e_y - e_i)|, is greater for a positive
// combination than the least margin eps at which every member meets the condition.
TEST(MixingRobustnessTest, CombinationsOfRobustLinearModelsAreMoreRobust) {
  constexpr int64_t kClasses = 4, kWidth = 6, kLabel = 1;
  const auto margin = [&](const at::Tensor& w, const at::Tensor& x) {
    double least = 1e300;
    for (int64_t i = 0; i < kClasses; ++i) {
      if (i == kLabel) continue;
      const at::Tensor direction = w[kLabel] - w[i];
      least = std::min(least, (at::dot(direction, x) / direction.norm()).item<double>());
    }
    return least;
  };
  at::manual_seed(5);
  for (int trial = 0; trial < 200; ++trial) {
    const at::Tensor x = at::randn({kWidth}, at::kDouble);
    std::vector<at::Tensor> models;
    double epsilon = 1e300;
    while (models.size() < 3) {
      const at::Tensor w = at::randn({kClasses, kWidth}, at::kDouble);
      if (margin(w, x) <= 0) continue;
      models.push_back(w);
      epsilon = std::min(epsilon, margin(w, x));
    }
    const at::Tensor shares = at::rand({3}, at::kDouble) + 0.05;
    at::Tensor sum = at::zeros({kClasses, kWidth}, at::kDouble);
    for (int64_t j = 0; j < 3; ++j) sum = sum + shares[j] * models[j];
    EXPECT_GT(margin(sum, x), epsilon);
    // A perturbation of that length towards the nearest boundary does not change the class.
    for (int64_t i = 0; i < kClasses; ++i) {
      if (i == kLabel) continue;
      const at::Tensor direction = sum[kLabel] - sum[i];
      const at::Tensor moved = at::mv(sum, x - direction / direction.norm() * epsilon);
      EXPECT_GT(moved[kLabel].item<double>(), moved[i].item<double>());
    }
  }
}

}  // namespace layer_mixing_test
}  // namespace braid
