#include "model/continuation_scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "model/advance.h"
#include "model/config/layer_mixing_config.h"
#include "model/document_mask.h"
#include "model/kernels/branch_attention.h"
#include "model/kernels/cross_entropy.h"
#include "model/kernels/layer_norm.h"
#include "model/layer_mixing.h"

namespace braid {
namespace {

using Continuations = std::span<const std::vector<int32_t>>;

// Limits on the activations of a group and on the scores of its attention.
constexpr size_t kGroupPositions = 4096, kGroupContinuations = 256;

at::Tensor OnDevice(const std::vector<int64_t>& values, const at::Tensor& like) {
  return at::tensor(at::ArrayRef<int64_t>(values), at::kLong).to(like.device());
}

// Returns the input tokens of a group, [C, T]: all tokens of each continuation but the last, which
// predicts nothing, padded with id 0.
at::Tensor FedTokens(Continuations all, std::span<const size_t> group, int64_t length) {
  std::vector<int64_t> ids(group.size() * length, 0);
  for (size_t i = 0; i < group.size(); ++i) {
    const std::vector<int32_t>& tokens = all[group[i]];
    std::copy(tokens.begin(), tokens.end() - 1, ids.begin() + static_cast<int64_t>(i) * length);
  }
  return at::tensor(at::ArrayRef<int64_t>(ids), at::kLong)
      .view({static_cast<int64_t>(group.size()), length});
}

at::Tensor Attend(const ModelTensors& model, const at::Tensor& qkv, const LayerState& layer,
                  int64_t position, const VisibleTokens& visible) {
  const int64_t shared = position - visible.begin;
  return BranchAttend(RotateHeads(qkv, model.tables, position),
                      layer.keys.narrow(1, visible.begin, shared),
                      layer.values.narrow(1, visible.begin, shared), visible.first);
}

// Returns what the tokens [C, T] of the branches see; `first` is [C, T].
VisibleTokens VisibleTo(const v1::ModelConfig& config, const SequenceState& sequence,
                        const at::Tensor& tokens) {
  VisibleTokens visible = VisibleFrom(config, sequence.tokens, {});
  const at::Tensor own = FirstVisible(config, tokens);
  if (!own.defined()) return visible;
  // A token whose document began in its branch sees nothing shared.
  const int64_t shared = sequence.position() - visible.begin;
  visible.first = own.gt(0).mul(own.add(shared)).to(at::kInt);
  return visible;
}

// Continuations of one sequence, [C, T] tokens.
struct Branches {
  const ModelTensors& model;
  at::Tensor tokens;
  VisibleTokens visible;
  int64_t position = 0;  // tokens of the sequence
};

// Returns the distances [C * T] of tokens from the first one that attention sees.
at::Tensor PositionsIn(const Branches& branches) {
  const int64_t first = branches.position - branches.visible.begin;
  const at::Tensor positions =
      at::arange(first, first + branches.tokens.size(1), branches.tokens.options())
          .expand(branches.tokens.sizes());
  const at::Tensor& start = branches.visible.first;
  return (start.defined() ? positions - start : positions).flatten();
}

// Returns the output of a layer, whose state of the sequence is `state`, for h [C * T, D].
at::Tensor RunBranchLayer(const Branches& branches, int layer, const LayerState& state,
                          at::Tensor h) {
  const ModelTensors& model = branches.model;
  const LayerWeights& w = model.weights.layers[layer];
  const int64_t d = h.size(1), count = branches.tokens.size(0), length = branches.tokens.size(1);
  const std::vector<int64_t> shape = {count, length, d};
  const at::Tensor qkv = ProjectQkv(model.config, w, h).view({count, length, -1});
  const at::Tensor mixed = Attend(model, qkv, state, branches.position, branches.visible);
  h = AddAttention(w, h, mixed.flatten(0, 1));
  const at::Tensor x = Normalize(h, w.ffn_norm, model.config.norm_epsilon());
  return state.ffn->AddBranchFfn(h.view(shape), x.view(shape), branches.tokens).view({-1, d});
}

// Returns the layers that the positions of the branches choose, z [C * T, D]. Positions of the
// example with which the sequence ends take its choice.
MixingChoice ChooseInBranches(const LayerMixer& mixer, const Branches& branches, int layer,
                              const at::Tensor& z, const MixingChoice& stored) {
  const at::Tensor& tokens = branches.tokens;
  const at::Tensor own = FirstVisible(branches.model.config, tokens);
  RoutingContext context;
  context.layer = layer;
  const MixingChoice choice =
      mixer.Choose(z.view({tokens.size(0), tokens.size(1), -1}),
                   UnitsOf(own, {}, tokens.size(0), tokens.size(1), z.device()),
                   /*training=*/false, context);
  const bool begins = branches.visible.begin == branches.position;
  if (!MixesByPrompt(branches.model.config) || begins) return choice;
  const at::Tensor earlier =
      own.defined() ? own.eq(0).flatten() : at::ones({z.size(0)}, tokens.options()).eq(1);
  return WithEarlier(choice, earlier.to(z.device()), stored);
}

// Returns the hidden states [C * T, D] after the final norm of tokens [C, T]. Padding comes after a
// continuation, so causal attention keeps it from having any influence.
at::Tensor RunBranches(const ModelTensors& model, const at::Tensor& tokens,
                       SequenceState* sequence) {
  const Branches branches{model, tokens, VisibleTo(model.config, *sequence, tokens),
                          sequence->position()};
  const LayerMixer mixer(model.config, model.weights.mixing);
  at::Tensor h = EmbedTokens(model.weights, tokens.flatten(), PositionsIn(branches));
  for (int layer = 0; layer < model.config.num_layers(); ++layer) {
    const at::Tensor own = RunBranchLayer(branches, layer, sequence->layers[layer], h);
    at::Tensor sum = own;
    if (mixer.Mixes(layer)) {
      MixingState& mixing = sequence->mixing.at(layer);
      const MixingChoice choice = ChooseInBranches(mixer, branches, layer, h, mixing.choice);
      for (const MixedPart& part : mixer.PartsOf(layer, choice)) {
        const LayerState& state =
            *OtherLayer(model, part.layer, sequence->position(), sequence, &mixing);
        const at::Tensor other = RunBranchLayer(branches, part.layer, state, h);
        sum = sum + part.coefficients.unsqueeze(1) * (other - own);
      }
    }
    h = sum;
  }
  return Normalize(h, model.weights.final_norm, model.config.norm_epsilon());
}

// Returns the scores of the group's continuations, one after the other.
at::Tensor GroupScores(const ModelTensors& model, Continuations all, std::span<const size_t> group,
                       int64_t length, SequenceState* sequence) {
  at::Tensor hidden = sequence->last_hidden;
  if (length > 0) {
    const at::Tensor tokens = FedTokens(all, group, length).to(hidden.device());
    hidden = at::cat({hidden, RunBranches(model, tokens, sequence)});
  }
  // indices into `hidden`: the sequence's last token, then [C, T]
  std::vector<int64_t> rows, targets;
  for (size_t i = 0; i < group.size(); ++i) {
    const std::vector<int32_t>& tokens = all[group[i]];
    for (size_t t = 0; t < tokens.size(); ++t) {
      // Token t > 0 is predicted at input t - 1 of branch i, which is row 1 + i T + (t - 1).
      rows.push_back(t == 0 ? 0 : static_cast<int64_t>(i) * length + static_cast<int64_t>(t));
      targets.push_back(tokens[t]);
    }
  }
  return ScoreTokens(hidden.index_select(0, OnDevice(rows, hidden)), model.weights.head,
                     OnDevice(targets, hidden), model.config.logit_soft_cap())
      .loss.neg()
      .to(at::kCPU, at::kFloat)
      .contiguous();
}

}  // namespace

// Sorting by length keeps the padding of a group small. The first token of a continuation is scored
// from the sequence's last hidden state, so T tokens need only T - 1 forward positions.
std::vector<std::vector<float>> ContinuationScores(const ModelTensors& model,
                                                   Continuations continuations,
                                                   SequenceState* sequence) {
  std::vector<size_t> order(continuations.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t i) { return continuations[i].size(); });
  std::vector<std::vector<float>> scores(continuations.size());
  for (size_t begin = 0; begin < order.size();) {
    const size_t longest = continuations[order[begin]].size();
    const size_t room = std::clamp<size_t>(kGroupPositions / longest, 1, kGroupContinuations);
    const size_t count = std::min(order.size() - begin, room);
    const std::span<const size_t> group = std::span(order).subspan(begin, count);
    const at::Tensor values =
        GroupScores(model, continuations, group, static_cast<int64_t>(longest) - 1, sequence);
    const float* next = values.data_ptr<float>();
    for (size_t i : group) {
      scores[i].assign(next, next + continuations[i].size());
      next += continuations[i].size();
    }
    begin += count;
  }
  return scores;
}

}  // namespace braid
