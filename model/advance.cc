#include "model/advance.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model/document_mask.h"
#include "model/kernels/causal_attention.h"
#include "model/kernels/cross_entropy.h"
#include "model/kernels/rms_norm.h"

namespace braid {
namespace {

at::Tensor IdTensor(const ModelTensors& model, std::span<const int32_t> tokens) {
  return at::tensor(at::ArrayRef<int32_t>(tokens.data(), tokens.size()), at::kLong)
      .to(model.weights.embedding.device());
}

at::Tensor Embed(const ModelTensors& model, const at::Tensor& ids) {
  return at::embedding(model.weights.embedding, ids);
}

// Attends the positions from `position` on, after appending their keys and values to the cache; qkv
// [n, (H + 2 Hkv) hd] -> [n, H hd].
at::Tensor AttendCached(const ModelTensors& model, const at::Tensor& qkv, int64_t position,
                        const VisibleTokens& visible, const LayerState& layer) {
  const int64_t count = qkv.size(0), end = position + count;
  const RotatedHeads heads = RotateHeads(qkv.unsqueeze(0), model.tables, position);
  layer.keys.narrow(1, position, count).copy_(heads.k[0]);
  layer.values.narrow(1, position, count).copy_(heads.v[0]);
  const int64_t seen = end - visible.begin;
  return CausalAttend(heads.q[0], layer.keys.narrow(1, visible.begin, seen),
                      layer.values.narrow(1, visible.begin, seen),
                      visible.first.defined() ? visible.first.unsqueeze(0) : visible.first)
      .transpose(0, 1)
      .reshape({count, -1});
}

// Runs all layers on the rows of h, with attend(layer, qkv) as attention and ffn(layer, h, x) as
// FFN.
template <class Attend, class Ffn>
at::Tensor RunLayers(const ModelTensors& model, at::Tensor h, Attend attend, Ffn ffn) {
  const double epsilon = model.config.norm_epsilon();
  for (size_t i = 0; i < model.weights.layers.size(); ++i) {
    const LayerWeights& w = model.weights.layers[i];
    const at::Tensor qkv = ProjectQkv(model.config, w, h);
    h = at::addmm(h, attend(i, qkv), w.attention_output.t());
    h = ffn(i, h, RmsNorm(h, w.ffn_norm, epsilon));
  }
  return h;
}

at::Tensor FinalNorm(const ModelTensors& model, const at::Tensor& h) {
  return RmsNorm(h, model.weights.final_norm, model.config.norm_epsilon());
}

}  // namespace

void Advance(const ModelTensors& model, std::span<const int32_t> tokens, SequenceState* sequence) {
  VisibleTokens visible = VisibleFrom(model.config, sequence->tokens, tokens);
  if (visible.first.defined()) visible.first = visible.first.to(model.weights.embedding.device());
  const auto attend = [&](size_t layer, const at::Tensor& qkv) {
    return AttendCached(model, qkv, sequence->position(), visible, sequence->layers[layer]);
  };
  const at::Tensor ids = IdTensor(model, tokens);
  const auto ffn = [&](size_t layer, const at::Tensor& h, const at::Tensor& x) {
    return sequence->layers[layer].ffn->AddFfn(h, x, ids);
  };
  const at::Tensor h = RunLayers(model, Embed(model, ids), attend, ffn);
  sequence->last_hidden = FinalNorm(model, h.narrow(0, h.size(0) - 1, 1));
  sequence->tokens.insert(sequence->tokens.end(), tokens.begin(), tokens.end());
}

std::vector<std::vector<float>> AdvanceTogether(const ModelTensors& model,
                                                std::span<const int32_t> tokens,
                                                std::span<SequenceState* const> sequences) {
  std::vector<VisibleTokens> visible;
  for (const SequenceState* s : sequences) {
    visible.push_back(VisibleFrom(model.config, s->tokens, {}));
  }
  const auto attend = [&](size_t layer, const at::Tensor& qkv) {
    std::vector<at::Tensor> rows;
    for (const SequenceState* s : sequences) {
      const int64_t i = std::ssize(rows);
      rows.push_back(
          AttendCached(model, qkv.narrow(0, i, 1), s->position(), visible[i], s->layers[layer]));
    }
    return at::cat(rows);
  };
  const bool alike = std::ranges::all_of(sequences, [&](const SequenceState* s) {
    return s->active_experts == sequences[0]->active_experts;
  });
  const at::Tensor ids = IdTensor(model, tokens);
  const auto ffn = [&](size_t layer, const at::Tensor& h, const at::Tensor& x) {
    IncrementalFfn& first = *sequences[0]->layers[layer].ffn;
    if (alike && first.IsPositionWise()) return first.AddFfn(h, x, ids);
    std::vector<at::Tensor> rows;
    for (const SequenceState* s : sequences) {
      const int64_t i = std::ssize(rows);
      rows.push_back(
          s->layers[layer].ffn->AddFfn(h.narrow(0, i, 1), x.narrow(0, i, 1), ids.narrow(0, i, 1)));
    }
    return at::cat(rows);
  };
  const at::Tensor hidden = FinalNorm(model, RunLayers(model, Embed(model, ids), attend, ffn));
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i]->last_hidden = hidden.narrow(0, static_cast<int64_t>(i), 1);
    sequences[i]->tokens.push_back(tokens[i]);
  }
  return LogitRows(model, hidden);
}

std::vector<std::vector<float>> LogitRows(const ModelTensors& model, const at::Tensor& hidden) {
  const at::Tensor logits = HeadLogits(hidden, model.weights.head, model.config.logit_soft_cap())
                                .to(at::kCPU, at::kFloat)
                                .contiguous();
  const float* data = logits.data_ptr<float>();
  std::vector<std::vector<float>> rows;
  for (int64_t i = 0; i < logits.size(0); ++i, data += logits.size(1)) {
    rows.emplace_back(data, data + logits.size(1));
  }
  return rows;
}

}  // namespace braid
