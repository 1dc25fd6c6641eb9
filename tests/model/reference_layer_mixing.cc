#include "tests/model/reference_layer_mixing.h"

#include <algorithm>
#include <functional>

#include "model/config/finetuning_config.h"
#include "model/config/layer_mixing_config.h"
#include "tests/model/reference_transformer.h"

namespace braid {
namespace {

at::Tensor PlainNorm(const at::Tensor& x, const at::Tensor& weight) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + 1e-5) * weight;
}

// The model by its equations. Examples are separate sequences; every layer runs for each of them.
class PlainModel {
 public:
  PlainModel(const v1::ModelConfig& config, const v1::Finetuning& finetuning,
             const MixingParameters& parameters)
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

  const MixingParameters& parameters() const { return p_; }

 private:
  const v1::ModelConfig& config_;
  const v1::Finetuning& finetuning_;
  const MixingParameters& p_;
};

// What the rows of one decision choose: layers and weights.
struct LayerChoice {
  std::vector<int> layers;
  std::vector<at::Tensor> weights;
};

// The choices of all examples of a batch, and the loss.
class MixingReference {
 public:
  MixingReference(const v1::ModelConfig& config, const v1::Finetuning& finetuning,
                  const MixingParameters& parameters, const MixingBatch& batch)
      : config_(config), batch_(batch), model_(config, finetuning, parameters) {}

  at::Tensor Loss(double balance_weight) {
    const MixingParameters& parameters = model_.parameters();
    const std::vector<int> mixed = MixingLayers(config_);
    balance_ = at::zeros({}, at::kDouble);
    std::vector<at::Tensor> z;
    for (const MixingExample& e : batch_.examples) {
      const at::Tensor ids = batch_.tokens[e.sequence].narrow(0, e.begin, e.end - e.begin);
      z.push_back(parameters.at("model.embed_tokens.weight").index_select(0, ids));
    }
    for (int t = 0; t < config_.num_layers(); ++t) {
      const bool mixes = std::ranges::count(mixed, t) > 0;
      const auto choices = mixes ? ChoicesAt(t, z) : std::vector<std::vector<LayerChoice>>();
      for (size_t e = 0; e < z.size(); ++e) {
        const at::Tensor own = model_.LayerOutput(t, z[e]);
        std::vector<at::Tensor> rows;
        for (int64_t r = 0; mixes && r < z[e].size(0); ++r) {
          at::Tensor other = at::zeros({8}, at::kDouble), rest = at::ones({}, at::kDouble);
          const LayerChoice& choice = choices[e][r];
          for (size_t k = 0; k < choice.layers.size(); ++k) {
            other = other +
                    choice.weights[k] * (model_.LayerOutput(choice.layers[k], z[e])[r] - z[e][r]);
            rest = rest - choice.weights[k];
          }
          const at::Tensor update = own[r] - z[e][r];
          rows.push_back(z[e][r] + model_.Alpha() * update +
                         (1 - model_.Alpha()) * (other + rest * update));
        }
        z[e] = mixes ? at::stack(rows) : own;
      }
    }
    at::Tensor loss = balance_ * balance_weight;
    for (size_t e = 0; e < z.size(); ++e) {
      const at::Tensor hidden = PlainNorm(z[e], parameters.at("model.norm.weight"));
      const at::Tensor logs =
          at::log_softmax(at::matmul(hidden, parameters.at("lm_head.weight").t()), 1);
      for (int64_t r = 0; r < hidden.size(0); ++r) {
        const auto target =
            batch_.targets[batch_.examples[e].sequence][batch_.examples[e].begin + r]
                .item<int64_t>();
        if (target >= 0) loss = loss - logs[r][target];
      }
    }
    return loss;
  }

 private:
  // Returns the choice of rows with scores and probabilities [M] and a ranking.
  LayerChoice Choose(const at::Tensor& ranking, const at::Tensor& scores,
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
    LayerChoice choice;
    for (const int64_t i : order) {
      choice.layers.push_back(candidates[i]);
      choice.weights.push_back(mixing.weight() == v1::LayerMixing::PROBABILITY
                                   ? probabilities[i]
                                   : scores[i].exp() / sum);
    }
    return choice;
  }

  // Returns the choices of all rows of all examples at layer t, z by example.
  std::vector<std::vector<LayerChoice>> ChoicesAt(int t, const std::vector<at::Tensor>& z) {
    const v1::LayerMixing& mixing = config_.layer_mixing();
    std::vector<std::vector<LayerChoice>> choices;
    std::vector<at::Tensor> scores, probabilities;
    for (size_t e = 0; e < z.size() && mixing.gate() != v1::LayerMixing::FIXED; ++e) {
      scores.push_back(model_.Scores(t, z[e]));
      probabilities.push_back(mixing.probability() == v1::LayerMixing::SIGMOID
                                  ? at::sigmoid(scores[e])
                                  : at::softmax(scores[e], 1));
    }
    std::vector<at::Tensor> decided = probabilities;  // those of the decision of each row
    for (size_t e = 0; e < z.size(); ++e) {
      const int64_t length = z[e].size(0);
      if (mixing.gate() == v1::LayerMixing::FIXED) {
        const std::vector<int> mixed = MixingLayers(config_);
        const auto place = std::ranges::find(mixed, t) - mixed.begin();
        choices.emplace_back(length,
                             LayerChoice{{mixing.fixed(place)}, {at::ones({}, at::kDouble)}});
      } else if (mixing.decision() == v1::LayerMixing::TOKEN) {
        choices.emplace_back();
        for (int64_t r = 0; r < length; ++r) {
          choices[e].push_back(Choose(probabilities[e][r], scores[e][r], probabilities[e][r]));
        }
      } else {
        at::Tensor s = scores[e].narrow(0, 0, batch_.examples[e].prompt);
        at::Tensor p = probabilities[e].narrow(0, 0, batch_.examples[e].prompt);
        if (mixing.decision() != v1::LayerMixing::SEQUENCE) {
          s = at::cat(scores), p = at::cat(probabilities);
        }
        at::Tensor ranking = p.mean(0);
        if (mixing.decision() == v1::LayerMixing::BATCH_MODE) {
          ranking = at::zeros({s.size(1)}, at::kDouble);
          for (int64_t r = 0; r < s.size(0); ++r) ranking[s[r].argmax()] += 1;
        }
        choices.emplace_back(length, Choose(ranking, s.mean(0), p.mean(0)));
        decided[e] = p.mean(0).expand({length, p.size(1)});
      }
    }
    if (mixing.balance_loss() > 0) AddBalance(choices, decided);
    return choices;
  }

  // Adds M sum_i f_i P_i of every sequence.
  void AddBalance(const std::vector<std::vector<LayerChoice>>& choices,
                  const std::vector<at::Tensor>& probabilities) {
    const std::vector<int> candidates = MixingLayers(config_);
    for (int64_t b = 0; b < 2; ++b) {
      at::Tensor mean = at::zeros({static_cast<int64_t>(candidates.size())}, at::kDouble);
      at::Tensor load = at::zeros_like(mean);
      double count = 0;
      for (size_t e = 0; e < batch_.examples.size(); ++e) {
        if (batch_.examples[e].sequence != b) continue;
        for (int64_t r = 0; r < probabilities[e].size(0); ++r) {
          if (batch_.targets[b][batch_.examples[e].begin + r].item<int64_t>() < 0) continue;
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

  const v1::ModelConfig& config_;
  const MixingBatch& batch_;
  const PlainModel model_;
  at::Tensor balance_ = at::zeros({}, at::kDouble);
};

}  // namespace

at::Tensor ReferenceMixingLoss(const v1::ModelConfig& config, const v1::Finetuning& finetuning,
                               const MixingParameters& parameters, const MixingBatch& batch,
                               double balance_weight) {
  return MixingReference(config, finetuning, parameters, batch).Loss(balance_weight);
}

}  // namespace braid
