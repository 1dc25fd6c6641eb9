#include "model/advance.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <utility>

#include "model/config/attention_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/document_mask.h"
#include "model/kernels/cached_attention.h"
#include "model/kernels/cross_entropy.h"
#include "model/kernels/layer_norm.h"
#include "model/layer_mixing.h"
#include "model/routing/router.h"

namespace braid {
namespace {

at::Tensor IdTensor(const ModelTensors& model, std::span<const int32_t> tokens) {
  return at::tensor(at::ArrayRef<int32_t>(tokens.data(), tokens.size()), at::kLong)
      .to(model.weights.embedding.device());
}

// Consecutive positions of one sequence.
struct Rows {
  SequenceState* sequence = nullptr;
  int64_t position = 0, count = 0;
  VisibleTokens visible;
  at::Tensor ids;  // [count]
};

// Returns the distances [count] of tokens from the first one that attention sees.
at::Tensor LearnedPositions(const Rows& rows) {
  const int64_t first = rows.position - rows.visible.begin;
  const at::Tensor positions = at::arange(first, first + rows.count, rows.ids.options());
  return rows.visible.first.defined() ? positions - rows.visible.first : positions;
}

// Returns f(i, row) for all i and the first row of each, one after the other.
template <class Function>
at::Tensor ForEach(std::span<const Rows> all, Function f) {
  if (all.size() == 1) return f(0, 0);
  std::vector<at::Tensor> parts;
  int64_t row = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    parts.push_back(f(i, row));
    row += all[i].count;
  }
  return at::cat(parts);
}

// Returns whether one call of the FFN can serve all sequences.
bool CanShareFfn(std::span<const Rows> all, std::span<LayerState* const> states) {
  return states[0]->ffn->IsPositionWise() && std::ranges::all_of(all, [&](const Rows& rows) {
           return rows.sequence->active_experts == all[0].sequence->active_experts;
         });
}

// Returns the output of layer `layer` for h [n, D], the rows of all sequences one after the other,
// and updates their states of it. After an exception a state may hold the rows in part, and its
// position does not count them. With `last_row_only`, for one sequence, the output may be that of
// its last row alone, [1, D].
at::Tensor RunLayer(const ModelTensors& model, int layer, at::Tensor h, std::span<const Rows> all,
                    std::span<LayerState* const> states, bool last_row_only = false) {
  const LayerWeights& w = model.weights.layers[layer];
  const at::Tensor qkv = ProjectQkv(model.config, w, h);
  at::Tensor mixed = ForEach(all, [&](size_t i, int64_t row) {
    const LayerState& state = *states[i];
    const VisibleTokens& visible = all[i].visible;
    return AttendToCache(qkv.narrow(0, row, all[i].count), model.tables,
                         {state.keys, state.values, all[i].position, visible.begin, visible.first});
  });
  std::span<const Rows> wanted = all;
  Rows last;
  if (last_row_only && states[0]->ffn->IsPositionWise()) {
    const int64_t place = h.size(0) - 1;
    last = all[0];
    last.ids = last.ids.narrow(0, place, 1);
    last.count = 1;
    wanted = {&last, 1};
    h = h.narrow(0, place, 1);
    mixed = mixed.narrow(0, place, 1);
  }
  const at::Tensor middle = AddAttention(w, h, mixed);
  const at::Tensor x = Normalize(middle, w.ffn_norm, model.config.norm_epsilon());
  at::Tensor output;
  if (wanted.size() > 1 && CanShareFfn(wanted, states)) {
    const at::Tensor ids = ForEach(wanted, [&](size_t i, int64_t) { return wanted[i].ids; });
    output = states[0]->ffn->AddFfn(middle, x, ids);
  } else {
    output = ForEach(wanted, [&](size_t i, int64_t row) {
      const Rows& rows = wanted[i];
      return states[i]->ffn->AddFfn(middle.narrow(0, row, rows.count), x.narrow(0, row, rows.count),
                                    rows.ids);
    });
  }
  for (size_t i = 0; i < all.size(); ++i) states[i]->position = all[i].position + all[i].count;
  return output;
}

// Returns the layers that rows of one sequence choose, z [n, D], and remembers the choice for the
// positions that follow. Positions of an example that began earlier take its choice.
MixingChoice ChooseLayers(const LayerMixer& mixer, const ModelTensors& model, int layer,
                          const at::Tensor& z, const Rows& rows, MixingState* state) {
  const bool continues = rows.visible.begin < rows.position && !rows.visible.first.defined();
  if (MixesByPrompt(model.config) && continues) {
    return {state->choice.chosen.expand({rows.count, -1}),
            state->choice.weights.expand({rows.count, -1})};
  }
  at::Tensor first = at::full({1, rows.count}, rows.visible.begin, at::kLong);
  if (rows.visible.first.defined()) first = first + rows.visible.first.to(at::kCPU).unsqueeze(0);
  const at::Tensor earlier = first.lt(rows.position).flatten().to(z.device());
  const MixingUnits units{(first - rows.position).clamp_min(0).to(z.device()),
                          at::ones({1, rows.count}, at::kBool).to(z.device())};
  RoutingContext context;
  context.layer = layer;
  MixingChoice choice = mixer.Choose(z.unsqueeze(0), units, /*training=*/false, context);
  if (!MixesByPrompt(model.config)) return choice;
  // At position 0 no choice has been stored yet.
  if (rows.position > 0) choice = WithEarlier(choice, earlier, state->choice);
  state->choice = {choice.chosen.narrow(0, rows.count - 1, 1),
                   choice.weights.narrow(0, rows.count - 1, 1)};
  return choice;
}

// The rows that take a part of one layer beside their own.
struct Takers {
  std::vector<Rows> rows;
  std::vector<LayerState*> states;
  // For each: places in the batch and weights, [count].
  std::vector<at::Tensor> index, coefficients;
};

// Returns the output of a mixing layer for its inputs z and its own output, [n, D] both.
at::Tensor MixRows(const LayerMixer& mixer, const ModelTensors& model, int layer,
                   const at::Tensor& z, const at::Tensor& own, std::span<const Rows> all) {
  // Ascending by layer, as in the full pass: the order of the sum must not depend on which sequence
  // was the first to choose a layer.
  std::map<int, Takers> takers;
  int64_t row = 0;
  for (const Rows& rows : all) {
    MixingState& state = rows.sequence->mixing.at(layer);
    const at::Tensor mine = z.narrow(0, row, rows.count);
    if (state.inputs.defined()) {
      state.inputs.narrow(0, rows.position, rows.count).copy_(mine);
    }
    const MixingChoice choice = ChooseLayers(mixer, model, layer, mine, rows, &state);
    for (const MixedPart& part : mixer.PartsOf(layer, choice)) {
      Takers& group = takers[part.layer];
      group.rows.push_back(rows);
      // These pointers stay valid when states are added: elements of a std::map do not move.
      group.states.push_back(OtherLayer(model, part.layer, rows.position, rows.sequence, &state));
      group.index.push_back(at::arange(row, row + rows.count, at::kLong).to(z.device()));
      group.coefficients.push_back(part.coefficients);
    }
    row += rows.count;
  }
  at::Tensor sum = own;
  for (const auto& [other, group] : takers) {
    if (all.size() == 1) {  // all rows, in order
      const at::Tensor output = RunLayer(model, other, z, group.rows, group.states);
      sum = sum + group.coefficients[0].unsqueeze(1) * (output - own);
      continue;
    }
    const at::Tensor index = at::cat(group.index);
    const at::Tensor output =
        RunLayer(model, other, z.index_select(0, index), group.rows, group.states);
    const at::Tensor added =
        at::cat(group.coefficients).unsqueeze(1) * (output - own.index_select(0, index));
    sum = sum.index_add(0, index, added);
  }
  return sum;
}

// Returns the last layer's output for the rows of all sequences, [n, D], or only for the last row
// of a single sequence.
at::Tensor RunRows(const ModelTensors& model, std::span<const Rows> all) {
  const LayerMixer mixer(model.config, model.weights.mixing);
  const at::Tensor ids = ForEach(all, [&](size_t i, int64_t) { return all[i].ids; });
  const at::Tensor positions =
      ForEach(all, [&](size_t i, int64_t) { return LearnedPositions(all[i]); });
  at::Tensor h = EmbedTokens(model.weights, ids, positions);
  const int last = model.config.num_layers() - 1;
  for (int layer = 0; layer <= last; ++layer) {
    std::vector<LayerState*> states;
    for (const Rows& rows : all) states.push_back(&rows.sequence->layers[layer]);
    const bool last_row_only = layer == last && all.size() == 1 && !mixer.Mixes(layer);
    const at::Tensor own = RunLayer(model, layer, h, all, states, last_row_only);
    h = mixer.Mixes(layer) ? MixRows(mixer, model, layer, h, own, all) : own;
  }
  return h;
}

at::Tensor FinalNorm(const ModelTensors& model, const at::Tensor& h) {
  return Normalize(h, model.weights.final_norm, model.config.norm_epsilon());
}

Rows RowsOf(const ModelTensors& model, SequenceState* sequence, std::span<const int32_t> past,
            std::span<const int32_t> next) {
  Rows rows{sequence, std::ssize(past), std::ssize(next), VisibleFrom(model.config, past, next),
            IdTensor(model, next)};
  if (rows.visible.first.defined()) {
    rows.visible.first = rows.visible.first.to(model.weights.embedding.device());
  }
  return rows;
}

}  // namespace

LayerState NewLayerState(const ModelTensors& model, int layer, MergeMode mode) {
  const v1::ModelConfig& config = model.config;
  const AttentionHeads heads = HeadsOf(config);
  const at::Tensor cache = at::empty({2, heads.key_value, config.sequence_length(), heads.width},
                                     model.weights.embedding.options().requires_grad(false));
  return {cache[0], cache[1],
          LayerRouters(config).Of(layer).Incremental(model.weights.layers[layer].ffn, mode,
                                                     model.routing_seed)};
}

LayerState* OtherLayer(const ModelTensors& model, int other, int64_t position,
                       SequenceState* sequence, MixingState* mixing) {
  auto found = mixing->others.find(other);
  if (found == mixing->others.end()) {
    // The configuration and seed are those of the sequence's own decoder: `model` may be that of
    // another decoder of StepTogether, which may be destroyed before this sequence.
    const ModelTensors own{*sequence->config, model.weights, model.tables, sequence->routing_seed};
    found = mixing->others.emplace(other, NewLayerState(own, other, sequence->mode)).first;
  }
  if (found->second.position >= position) return &found->second;
  // Taken out of the map while it catches up: an exception drops the state, which may hold some
  // positions in part, and the next call begins with a new one.
  auto node = mixing->others.extract(found);
  LayerState* const state = &node.mapped();
  TORCH_CHECK(mixing->inputs.defined(), "layer mixing: layer ", other, " was not chosen from the ",
              "first position on, although a sequence chooses once");
  const std::span<const int32_t> tokens(sequence->tokens);
  const Rows rows = RowsOf(model, sequence, tokens.first(state->position),
                           tokens.subspan(state->position, position - state->position));
  // Only the caches are wanted: these positions did not choose the layer.
  RunLayer(model, other, mixing->inputs.narrow(0, rows.position, rows.count), {&rows, 1},
           {&state, 1});
  mixing->others.insert(std::move(node));
  return state;
}

MixingChoice WithEarlier(const MixingChoice& fresh, const at::Tensor& earlier,
                         const MixingChoice& stored) {
  const at::Tensor mask = earlier.unsqueeze(1);
  return {at::where(mask, stored.chosen, fresh.chosen),
          at::where(mask, stored.weights, fresh.weights)};
}

void Advance(const ModelTensors& model, std::span<const int32_t> tokens, SequenceState* sequence) {
  const Rows rows = RowsOf(model, sequence, sequence->tokens, tokens);
  const at::Tensor h = RunRows(model, {&rows, 1});
  sequence->last_hidden = FinalNorm(model, h.narrow(0, h.size(0) - 1, 1));
  sequence->tokens.insert(sequence->tokens.end(), tokens.begin(), tokens.end());
}

std::vector<std::vector<float>> AdvanceTogether(const ModelTensors& model,
                                                std::span<const int32_t> tokens,
                                                std::span<SequenceState* const> sequences) {
  std::vector<Rows> all;
  for (size_t i = 0; i < sequences.size(); ++i) {
    all.push_back(RowsOf(model, sequences[i], sequences[i]->tokens, tokens.subspan(i, 1)));
  }
  const at::Tensor hidden = FinalNorm(model, RunRows(model, all));
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
