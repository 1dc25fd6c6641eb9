// Layers that mix against equation 4 of arXiv 2503.11144 as plain loops over examples and layers.
#include "model/layer_mixing.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "model/config/finetuning_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/kernels/cross_entropy.h"
#include "model/transformer.h"
#include "tests/model/reference_transformer.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace layer_mixing_test {

constexpr int64_t kLength = 12, kVocabulary = 19;

struct MixingCase {
  std::string name;
  std::string mixing;  // a LayerMixing, as text
  bool lora = false;
};

void PrintTo(const MixingCase& c, std::ostream* out) { *out << c.name; }

// An example within a batch: positions [begin, end) of a sequence, of which the first `prompt` are
// given.
struct Example {
  int64_t sequence = 0, begin = 0, end = 0, prompt = 0;
};

using Parameters = std::map<std::string, at::Tensor>;

at::Tensor PlainNorm(const at::Tensor& x, const at::Tensor& weight) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + 1e-5) * weight;
}

// The model by its equations. Examples are separate sequences; every layer runs for each of them.
class PlainModel {
 public:
  PlainModel(const v1::ModelConfig& config, const v1::Finetuning& finetuning,
             const Parameters& parameters)
      : config_(config), finetuning_(finetuning), p_(parameters) {}

  // Returns z + u_i(z) for one example z [L, D].
  at::Tensor LayerOutput(int i, const at::Tensor& z) const {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
    const at::Tensor x = PlainNorm(z, p_.at(layer + "input_layernorm.weight"));
    const at::Tensor qkv = at::matmul(x, at::cat({Matrix(i, "q", attention + "q_proj.weight"),
                                                  Matrix(i, "k", attention + "k_proj.weight"),
                                                  Matrix(i, "v", attention + "v_proj.weight")})
                                             .t());
    const at::Tensor mixed = ReferenceAttention(qkv.unsqueeze(0), 2, 2, {})[0];
    const at::Tensor h = z + at::matmul(mixed, Matrix(i, "o", attention + "o_proj.weight").t());
    const at::Tensor y = PlainNorm(h, p_.at(layer + "post_attention_layernorm.weight"));
    const at::Tensor gate = at::matmul(y, Matrix(i, "gate", mlp + "gate_proj.weight").t());
    const at::Tensor up = at::matmul(y, Matrix(i, "up", mlp + "up_proj.weight").t());
    // The file holds the transpose of down.
    const at::Tensor down = Matrix(i, "down", mlp + "down_proj.weight_t");
    return h + at::matmul(gate * at::sigmoid(gate) * up, down);
  }

  // Returns the scores [L, M] of one example.
  at::Tensor Scores(int t, const at::Tensor& z) const {
    const v1::LayerMixing& mixing = config_.layer_mixing();
    const std::string gate =
        (mixing.own_gates() ? "model.layers." + std::to_string(t) + "." : std::string("model.")) +
        "layer_mixing.gate.";
    const at::Tensor w = p_.at(gate + "weight");
    if (mixing.score() == v1::LayerMixing::LINEAR) {
      return at::matmul(z, w.t()) + p_.at(gate + "bias");
    }
    const at::Tensor projected = at::matmul(z, p_.at(gate + "projection.weight").t());
    const at::Tensor lengths = projected.norm(2, {1}, true) * w.norm(2, {1}).unsqueeze(0);
    return at::matmul(projected, w.t()) / lengths * p_.at(gate + "log_scale").exp();
  }

  at::Tensor Alpha() const {
    if (config_.layer_mixing().learn_alpha()) return p_.at("model.layer_mixing.alpha")[0];
    return at::full({}, config_.layer_mixing().alpha(), at::kDouble);
  }

  // Returns the matrix with its adapter added.
  at::Tensor Matrix(int layer, const std::string& target, const std::string& name) const {
    for (const AdapterSpec& spec : AdaptersOf(config_, finetuning_)) {
      if (spec.layer != layer || spec.target != target) continue;
      const at::Tensor change =
          at::matmul(p_.at(spec.b), p_.at(spec.a)) * AdapterScale(finetuning_.lora());
      return p_.at(name) + (target == "down" ? change.t() : change);
    }
    return p_.at(name);
  }

  const Parameters& parameters() const { return p_; }

 private:
  const v1::ModelConfig& config_;
  const v1::Finetuning& finetuning_;
  const Parameters p_;
};

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
    tokens_ = at::randint(0, kVocabulary, {2, kLength}, at::kLong);
    targets_ = at::full({2, kLength}, -1, at::kLong);
    visible_ = at::zeros({2, kLength}, at::kInt);
    for (const Example& e : examples_) {
      for (int64_t p = e.begin; p < e.end; ++p) visible_[e.sequence][p] = e.begin;
      for (int64_t p = e.begin + e.prompt - 1; p + 1 < e.end; ++p) {
        targets_[e.sequence][p] = tokens_[e.sequence][p + 1];
      }
    }
  }

  at::Tensor Loss() const {
    RoutingContext context;
    context.counted = targets_.ge(0).to(at::kFloat);
    const HiddenStates states = RunTransformer(config_, weights_, tables_, tokens_,
                                               MergeMode::kTraining, context, visible_);
    const at::Tensor loss = CrossEntropy(states.hidden, weights_.head, targets_.flatten(), 1).total;
    return states.mixing_loss.defined() ? loss + states.mixing_loss.sum() * 0.7 : loss;
  }

  Parameters NamedCopies() const {
    Parameters copies;
    for (const ParameterSpec& spec : layout_) {
      copies[spec.name] =
          values_.narrow(0, spec.offset, spec.size).view(spec.shape).clone().requires_grad_();
    }
    return copies;
  }

  // What the rows of one decision choose: layers and weights.
  struct Plain {
    std::vector<int> layers;
    std::vector<at::Tensor> weights;
  };

  // Returns the choice of rows with scores and probabilities [M] and a ranking.
  Plain Choose(const at::Tensor& ranking, const at::Tensor& scores,
               const at::Tensor& probabilities) const {
    const v1::LayerMixing& mixing = config_.layer_mixing();
    const std::vector<int> candidates = MixingLayers(config_);
    std::vector<int64_t> order;
    for (int64_t i = 0; i < ranking.size(0); ++i) order.push_back(i);
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](int64_t i) { return ranking[i].item<double>(); });
    order.resize(mixing.num_chosen());
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (const int64_t i : order) sum = sum + scores[i].exp();
    Plain choice;
    for (const int64_t i : order) {
      choice.layers.push_back(candidates[i]);
      choice.weights.push_back(mixing.weight() == v1::LayerMixing::PROBABILITY
                                   ? probabilities[i]
                                   : scores[i].exp() / sum);
    }
    return choice;
  }

  // Returns the choices of all rows of all examples at layer t, z by example.
  std::vector<std::vector<Plain>> PlainChoices(const PlainModel& model, int t,
                                               const std::vector<at::Tensor>& z) {
    const v1::LayerMixing& mixing = config_.layer_mixing();
    std::vector<std::vector<Plain>> choices;
    std::vector<at::Tensor> scores, probabilities;
    for (size_t e = 0; e < z.size() && mixing.gate() != v1::LayerMixing::FIXED; ++e) {
      scores.push_back(model.Scores(t, z[e]));
      probabilities.push_back(mixing.probability() == v1::LayerMixing::SIGMOID
                                  ? at::sigmoid(scores[e])
                                  : at::softmax(scores[e], 1));
    }
    for (size_t e = 0; e < z.size(); ++e) {
      const int64_t length = z[e].size(0);
      if (mixing.gate() == v1::LayerMixing::FIXED) {
        const std::vector<int> mixed = MixingLayers(config_);
        const auto place = std::ranges::find(mixed, t) - mixed.begin();
        choices.emplace_back(length, Plain{{mixing.fixed(place)}, {at::ones({}, at::kDouble)}});
      } else if (mixing.decision() == v1::LayerMixing::TOKEN) {
        choices.emplace_back();
        for (int64_t r = 0; r < length; ++r) {
          choices[e].push_back(Choose(probabilities[e][r], scores[e][r], probabilities[e][r]));
        }
      } else {
        at::Tensor s = scores[e].narrow(0, 0, examples_[e].prompt);
        at::Tensor p = probabilities[e].narrow(0, 0, examples_[e].prompt);
        if (mixing.decision() != v1::LayerMixing::SEQUENCE) {
          s = at::cat(scores), p = at::cat(probabilities);
        }
        at::Tensor ranking = p.mean(0);
        if (mixing.decision() == v1::LayerMixing::BATCH_MODE) {
          ranking = at::zeros({s.size(1)}, at::kDouble);
          for (int64_t r = 0; r < s.size(0); ++r) ranking[s[r].argmax()] += 1;
        }
        choices.emplace_back(length, Choose(ranking, s.mean(0), p.mean(0)));
      }
    }
    if (mixing.balance_loss() > 0) AddBalance(choices, probabilities);
    return choices;
  }

  // Adds M sum_i f_i P_i of every sequence; only for decisions by token.
  void AddBalance(const std::vector<std::vector<Plain>>& choices,
                  const std::vector<at::Tensor>& probabilities) {
    const std::vector<int> candidates = MixingLayers(config_);
    for (int64_t b = 0; b < 2; ++b) {
      at::Tensor mean = at::zeros({static_cast<int64_t>(candidates.size())}, at::kDouble);
      at::Tensor load = at::zeros_like(mean);
      double count = 0;
      for (size_t e = 0; e < examples_.size(); ++e) {
        if (examples_[e].sequence != b) continue;
        for (int64_t r = 0; r < probabilities[e].size(0); ++r) {
          if (targets_[b][examples_[e].begin + r].item<int64_t>() < 0) continue;
          count += 1;
          mean = mean + probabilities[e][r];
          for (const int layer : choices[e][r].layers) {
            load[std::ranges::find(candidates, layer) - candidates.begin()] +=
                1.0 / config_.layer_mixing().num_chosen();
          }
        }
      }
      balance_ =
          balance_ + (load * mean).sum() / (count * count) * static_cast<double>(candidates.size());
    }
  }

  // Returns the loss of the plain model.
  at::Tensor PlainLoss(const Parameters& parameters) {
    const PlainModel model(config_, finetuning_, parameters);
    const std::vector<int> mixed = MixingLayers(config_);
    balance_ = at::zeros({}, at::kDouble);
    std::vector<at::Tensor> z;
    for (const Example& e : examples_) {
      const at::Tensor ids = tokens_[e.sequence].narrow(0, e.begin, e.end - e.begin);
      z.push_back(parameters.at("model.embed_tokens.weight").index_select(0, ids));
    }
    for (int t = 0; t < config_.num_layers(); ++t) {
      const bool mixes = std::ranges::count(mixed, t) > 0;
      const auto choices = mixes ? PlainChoices(model, t, z) : std::vector<std::vector<Plain>>();
      for (size_t e = 0; e < z.size(); ++e) {
        const at::Tensor own = model.LayerOutput(t, z[e]);
        std::vector<at::Tensor> rows;
        for (int64_t r = 0; mixes && r < z[e].size(0); ++r) {
          at::Tensor other = at::zeros({8}, at::kDouble), rest = at::ones({}, at::kDouble);
          const Plain& choice = choices[e][r];
          for (size_t k = 0; k < choice.layers.size(); ++k) {
            other = other +
                    choice.weights[k] * (model.LayerOutput(choice.layers[k], z[e])[r] - z[e][r]);
            rest = rest - choice.weights[k];
          }
          const at::Tensor update = own[r] - z[e][r];
          rows.push_back(z[e][r] + model.Alpha() * update +
                         (1 - model.Alpha()) * (other + rest * update));
        }
        z[e] = mixes ? at::stack(rows) : own;
      }
    }
    at::Tensor loss = balance_ * 0.7;
    for (size_t e = 0; e < z.size(); ++e) {
      const at::Tensor hidden = PlainNorm(z[e], parameters.at("model.norm.weight"));
      const at::Tensor logs =
          at::log_softmax(at::matmul(hidden, parameters.at("lm_head.weight").t()), 1);
      for (int64_t r = 0; r < hidden.size(0); ++r) {
        const auto target = targets_[examples_[e].sequence][examples_[e].begin + r].item<int64_t>();
        if (target >= 0) loss = loss - logs[r][target];
      }
    }
    return loss;
  }

  const std::vector<Example> examples_ = {{0, 0, 7, 3}, {0, 7, 12, 2}, {1, 0, 12, 5}};
  v1::ModelConfig config_;
  v1::Finetuning finetuning_;
  std::vector<ParameterSpec> layout_;
  at::Tensor values_, gradients_, tokens_, targets_, visible_, balance_;
  TransformerWeights weights_;
  AttentionTables tables_;
};

class LayerMixingTest : public MixingGradientTest,
                        public testing::WithParamInterface<MixingCase> {};

TEST_P(LayerMixingTest, EqualsPlainLoopsInLossAndAllGradients) {
  Build(GetParam().mixing, GetParam().lora);
  const Parameters parameters = NamedCopies();
  const at::Tensor expected = PlainLoss(parameters), loss = Loss();
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
