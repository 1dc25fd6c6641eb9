#include "model/continuation_scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "model/document_mask.h"
#include "model/kernels/branch_attention.h"
#include "model/kernels/cross_entropy.h"
#include "model/kernels/rms_norm.h"

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

// Returns the hidden states [C * T, D] after the final norm of tokens [C, T]. Padding comes after a
// continuation, so causal attention keeps it from having any influence.
at::Tensor RunBranches(const ModelTensors& model, const SequenceState& sequence,
                       const at::Tensor& tokens) {
  const int64_t d = model.config.d_model();
  const std::vector<int64_t> shape = {tokens.size(0), tokens.size(1), d};
  const double epsilon = model.config.norm_epsilon();
  const VisibleTokens visible = VisibleTo(model.config, sequence, tokens);
  at::Tensor h = at::embedding(model.weights.embedding, tokens.flatten());
  for (size_t i = 0; i < sequence.layers.size(); ++i) {
    const LayerWeights& w = model.weights.layers[i];
    const at::Tensor qkv =
        ProjectQkv(model.config, w, h).view({tokens.size(0), tokens.size(1), -1});
    const at::Tensor mixed = Attend(model, qkv, sequence.layers[i], sequence.position(), visible);
    h = at::addmm(h, mixed.flatten(0, 1), w.attention_output.t());
    const at::Tensor x = RmsNorm(h, w.ffn_norm, epsilon);
    h = sequence.layers[i].ffn->AddBranchFfn(h.view(shape), x.view(shape), tokens).view({-1, d});
  }
  return RmsNorm(h, model.weights.final_norm, epsilon);
}

// Returns the scores of the group's continuations, one after the other.
at::Tensor GroupScores(const ModelTensors& model, const SequenceState& sequence, Continuations all,
                       std::span<const size_t> group, int64_t length) {
  at::Tensor hidden = sequence.last_hidden;
  if (length > 0) {
    const at::Tensor tokens = FedTokens(all, group, length).to(hidden.device());
    hidden = at::cat({hidden, RunBranches(model, sequence, tokens)});
  }
  // indices into `hidden`: the sequence's last token, then [C, T]
  std::vector<int64_t> rows, targets;
  for (size_t i = 0; i < group.size(); ++i) {
    const std::vector<int32_t>& tokens = all[group[i]];
    for (size_t t = 0; t < tokens.size(); ++t) {
      rows.push_back(t == 0 ? 0 : static_cast<int64_t>(i) * length + static_cast<int64_t>(t));
      targets.push_back(tokens[t]);
    }
  }
  return TokenLosses(hidden.index_select(0, OnDevice(rows, hidden)), model.weights.head,
                     OnDevice(targets, hidden), model.config.logit_soft_cap())
      .neg()
      .to(at::kCPU, at::kFloat)
      .contiguous();
}

}  // namespace

// Sorting by length keeps the padding of a group small. The first token of a continuation is scored
// from the sequence's last hidden state, so T tokens need only T - 1 forward positions.
std::vector<std::vector<float>> ContinuationScores(const ModelTensors& model,
                                                   const SequenceState& sequence,
                                                   Continuations continuations) {
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
        GroupScores(model, sequence, continuations, group, static_cast<int64_t>(longest) - 1);
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
