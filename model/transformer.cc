#include "model/transformer.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/splitmix.h"
#include "model/config/attention_config.h"
#include "model/config/document_config.h"
#include "model/config/family_config.h"
#include "model/config/model_config.h"
#include "model/config/rotary_frequencies.h"
#include "model/document_mask.h"
#include "model/embedding_noise.h"
#include "model/kernels/dense_ffn.h"
#include "model/kernels/gelu_ffn.h"
#include "model/kernels/rms_norm.h"
#include "model/layer_mixing.h"
#include "model/repacked_examples.h"
#include "model/routing/document_segments.h"
#include "model/routing/router.h"

namespace braid {
namespace {

// Adds a loss that may be undefined to a sum that is undefined while it has no term.
void AddTo(const at::Tensor& loss, at::Tensor* sum) {
  if (loss.defined()) *sum = sum->defined() ? *sum + loss : loss;
}

// The inputs that adapters of a layer have: those of attention, its output, the FFN, and the FFN's
// hidden units. Adapters with the same input share its dropout mask.
enum class AdapterInput { kAttention, kAttentionOutput, kFfn, kHidden };

// Returns the dropout of an input in training, and none otherwise.
InputDropout DropoutOf(const LayerWeights& w, MergeMode mode, const RoutingContext& context,
                       int64_t batch, AdapterInput input) {
  InputDropout dropout;
  if (mode != MergeMode::kTraining || w.adapters.dropout == 0) return dropout;
  dropout.rate = w.adapters.dropout;
  const uint64_t step = Mix64(context.seed, static_cast<uint64_t>(context.step));
  const uint64_t place = Mix64(static_cast<uint64_t>(context.layer), static_cast<uint64_t>(input));
  for (int64_t b = 0; b < batch; ++b) {
    // The key has the instance and not the place in the batch, so masks do not depend on how a
    // batch is divided over ranks and micro-batches.
    const int64_t sequence = b % (batch / context.passes), pass = b / (batch / context.passes);
    const int64_t instance = context.instances.empty() ? sequence : context.instances[sequence];
    dropout.keys.push_back(Mix64(Mix64(step, place), Mix64(static_cast<uint64_t>(instance), pass)));
  }
  return dropout;
}

// Normalizes every head of x [T, heads * hd].
at::Tensor NormalizeHeads(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return RmsNorm(x.reshape({-1, weight.size(0)}), weight, epsilon).view(x.sizes());
}

// Returns the dense FFN of x [T, D] with the adapters of its layer.
at::Tensor FfnWithAdapters(const at::Tensor& x, const LayerWeights& w,
                           const InputDropout& input_dropout, const InputDropout& hidden_dropout) {
  const FfnWeights& ffn = w.ffn;
  if (ffn.up_bias.defined()) {
    return AdaptedGeluFfn(x, {ffn.gate_up, ffn.up_bias, ffn.down, ffn.down_bias},
                          w.adapters.gate_up, w.adapters.down, input_dropout, hidden_dropout);
  }
  return AdaptedFfn(x, ffn.gate_up, ffn.down, w.adapters.gate_up, w.adapters.down, input_dropout,
                    hidden_dropout);
}

// Returns the FFN of a layer with experts, with their adapters added.
FfnWeights ExpertsWithAdapters(const LayerWeights& w) {
  FfnWeights ffn = w.ffn;
  if (!w.adapters.in_ffn()) return ffn;
  ffn.gate_up = AdaptedExperts(ffn.gate_up, w.adapters.gate_up);
  // down is [E, F, D], the transpose of what B A is added to.
  Adapters down{{}, w.adapters.down.scale};
  for (const Adapter& part : w.adapters.down.parts) {
    down.parts.push_back({0, part.b.transpose(1, 2), part.a.transpose(1, 2)});
  }
  ffn.down = AdaptedExperts(ffn.down.unsqueeze(0), down).squeeze(0);
  return ffn;
}

// Returns the positions [B * L] of tokens [B, L]: distances from the first token that attention
// sees.
at::Tensor PositionsOf(const at::Tensor& tokens, const at::Tensor& visible) {
  const at::Tensor positions = at::arange(tokens.size(1), tokens.options()).expand(tokens.sizes());
  return (visible.defined() ? positions - visible : positions).flatten();
}

// Returns the sequences [B] with a position for which `takers` [B * L] is true.
std::vector<int64_t> SequencesWith(const at::Tensor& takers, int64_t batch) {
  const at::Tensor any = takers.view({batch, -1}).any(1).to(at::kCPU).contiguous();
  std::vector<int64_t> sequences;
  for (int64_t b = 0; b < batch; ++b) {
    if (any.data_ptr<bool>()[b]) sequences.push_back(b);
  }
  return sequences;
}

// The part of a batch that is made of the sequences `rows`.
RoutingContext Subset(const RoutingContext& context, const std::vector<int64_t>& rows,
                      const at::Tensor& index, std::vector<int64_t>* instances) {
  RoutingContext subset = context;
  for (const int64_t row : rows) {
    instances->push_back(context.instances.empty() ? row : context.instances[row]);
  }
  // A view, so `instances` must outlive the context.
  subset.instances = *instances;
  subset.tokens = context.tokens.index_select(0, index);
  if (context.counted.defined()) subset.counted = context.counted.index_select(0, index);
  return subset;
}

// The layers of a model as functions of whole sequences.
class FullPass {
 public:
  FullPass(const v1::ModelConfig& config, const TransformerWeights& weights,
           const AttentionTables& tables, MergeMode mode)
      : config_(config), weights_(weights), tables_(tables), mode_(mode), routers_(config) {}

  // Returns the output of a layer for h [T, D], which is [T, D] too. context.tokens are [B, L].
  // With `wanted` [n] int64, of a layer for which CanLeaveOut holds, it is that of these rows,
  // [n, D].
  RoutedFfn Layer(int layer, at::Tensor h, const at::Tensor& visible, const RoutingContext& context,
                  const at::Tensor& wanted = {}) const {
    const LayerWeights& w = weights_.layers[layer];
    const int64_t batch = context.tokens.size(0), length = context.tokens.size(1);
    const auto dropout = [&](AdapterInput input) {
      return DropoutOf(w, mode_, context, batch, input);
    };
    const at::Tensor qkv =
        ProjectQkv(config_, w, h, dropout(AdapterInput::kAttention)).view({batch, length, -1});
    at::Tensor mixed = CausalAttention(qkv, tables_, visible).flatten(0, 1);
    std::vector<int64_t> shape = {batch, length, h.size(1)};
    if (wanted.defined()) {
      h = h.index_select(0, wanted);
      mixed = mixed.index_select(0, wanted);
      shape = {1, h.size(0), h.size(1)};
    }
    h = AddAttention(w, h, mixed, dropout(AdapterInput::kAttentionOutput));
    const at::Tensor x = Normalize(h, w.ffn_norm, config_.norm_epsilon());
    if (context.on_ffn_input) context.on_ffn_input(layer, x);
    if (w.adapters.in_ffn() && !IsMoeLayer(config_, layer)) {
      return {
          h + FfnWithAdapters(x, w, dropout(AdapterInput::kFfn), dropout(AdapterInput::kHidden)),
          {}};
    }
    RoutedFfn ffn = routers_.Of(layer).AddFfn(h.view(shape), x.view(shape), ExpertsWithAdapters(w),
                                              mode_, context);
    ffn.output = ffn.output.view({-1, h.size(1)});
    return ffn;
  }

  // Returns whether positions of a layer can be left out after its attention: nothing in it depends
  // on their places in the batch, and nothing else reads them.
  bool CanLeaveOut(int layer, const RoutingContext& context) const {
    return !IsMoeLayer(config_, layer) && context.dropout == nullptr &&
           weights_.layers[layer].adapters.dropout == 0 && !context.on_ffn_input &&
           !context.on_layer_output;
  }

  // Returns own + sum_i c_i (h_i - own) for the parts i of a mixing layer with the input z [B, L,
  // D] and the output own [T, D], or [n, D] of the rows `wanted`. Only the examples that chose a
  // layer pass through it, or the sequences with such examples where it uses their places. The
  // losses of its router and dropout are those of its own pass.
  at::Tensor AddOthers(const std::vector<MixedPart>& parts, const at::Tensor& z,
                       const at::Tensor& own, const at::Tensor& visible, RoutingContext context,
                       const at::Tensor& wanted) const {
    Mixture mixture{.z = z.flatten(0, 1), .own = own, .sum = own, .rows = RowsOf(wanted, z)};
    // Random numbers differ from those of the layer's own pass.
    context.seed = Mix64(context.seed, 1 + static_cast<uint64_t>(context.layer));
    context.on_ffn_input = nullptr;
    context.on_layer_output = nullptr;
    for (const MixedPart& part : parts) {
      context.layer = part.layer;
      at::Tensor takers = part.takers;
      if (wanted.defined()) {
        takers = takers.logical_and(mixture.rows.ge(0));
        if (!takers.any().item<bool>()) continue;
      }
      if (visible.defined() && CanLeaveOut(part.layer, context)) {
        if (const auto examples = RepackExamples(visible, takers)) {
          RoutingContext repacked = context;
          repacked.tokens = context.tokens.flatten()
                                .index_select(0, examples->source)
                                .view(examples->visible.sizes());
          AddExamples(part, *examples, repacked, &mixture);
          continue;
        }
      }
      const std::vector<int64_t> sequences = SequencesWith(takers, z.size(0));
      // Both passes of a consistency loss are numbered in the whole batch.
      if (context.passes > 1 || std::ssize(sequences) == z.size(0)) {
        const at::Tensor other = RowsOfLayer(part.layer, mixture.z, visible, context, wanted);
        const at::Tensor coefficients =
            wanted.defined() ? part.coefficients.index_select(0, wanted) : part.coefficients;
        mixture.sum = mixture.sum + coefficients.unsqueeze(1) * (other - own);
        continue;
      }
      const at::Tensor index =
          at::tensor(at::ArrayRef<int64_t>(sequences), at::kLong).to(z.device());
      std::vector<int64_t> instances;
      const RoutingContext subset = Subset(context, sequences, index, &instances);
      AddExamples(part, WholeSequences(index, visible, z.size(1)), subset, &mixture);
    }
    return mixture.sum;
  }

 private:
  // The residual stream of a mixing layer.
  struct Mixture {
    at::Tensor z;     // [T, D]: the layer's input
    at::Tensor own;   // [n, D]: its own output at the wanted positions
    at::Tensor sum;   // [n, D]: own and the parts so far
    at::Tensor rows;  // [T] int64: the row of each position in own, or -1; undefined for all
  };

  static at::Tensor RowsOf(const at::Tensor& wanted, const at::Tensor& z) {
    if (!wanted.defined()) return {};
    return at::full({z.size(0) * z.size(1)}, -1, wanted.options())
        .index_copy(0, wanted, at::arange(wanted.numel(), wanted.options()));
  }

  // Returns the rows `wanted` of a layer's output, or all.
  at::Tensor RowsOfLayer(int layer, const at::Tensor& h, const at::Tensor& visible,
                         const RoutingContext& context, const at::Tensor& wanted) const {
    const bool all = wanted.defined() && !CanLeaveOut(layer, context);
    const at::Tensor output = Layer(layer, h, visible, context, all ? at::Tensor() : wanted).output;
    return all ? output.index_select(0, wanted) : output;
  }

  // Adds c (h - own) to the sum for the output h of a layer whose inputs are examples.
  void AddExamples(const MixedPart& part, const RepackedExamples& examples,
                   const RoutingContext& context, Mixture* mixture) const {
    at::Tensor places = examples.places, positions = examples.positions, rows = positions;
    if (mixture->rows.defined()) {
      rows = mixture->rows.index_select(0, positions);
      const at::Tensor kept = rows.ge(0).nonzero().flatten();
      places = places.index_select(0, kept);
      positions = positions.index_select(0, kept);
      rows = rows.index_select(0, kept);
    }
    const at::Tensor inputs = mixture->z.index_select(0, examples.source);
    const at::Tensor output = RowsOfLayer(part.layer, inputs, examples.visible, context, places);
    const at::Tensor added = output - mixture->own.index_select(0, rows);
    const at::Tensor coefficients = part.coefficients.index_select(0, positions).unsqueeze(1);
    mixture->sum = mixture->sum.index_add(0, rows, coefficients * added);
  }

  const v1::ModelConfig& config_;
  const TransformerWeights& weights_;
  const AttentionTables& tables_;
  const MergeMode mode_;
  const LayerRouters routers_;
};

// Returns the later of two positions for each token, [B, L] int32: where its document and its
// example begin. Either may be undefined.
at::Tensor Later(const at::Tensor& document, const at::Tensor& example) {
  if (!document.defined() || !example.defined()) return example.defined() ? example : document;
  return at::maximum(document, example);
}

// Returns the positions that count, [n] int64, where they are less than half of all: answers in
// examples, for instance. Otherwise undefined: to pick rows would not pay.
at::Tensor FewCounted(const at::Tensor& counted) {
  if (!counted.defined()) return {};
  const at::Tensor rows = counted.flatten().nonzero().flatten();
  return rows.numel() > 0 && 2 * rows.numel() < counted.numel() ? rows : at::Tensor();
}

// Returns the first position of each token's document, [B, L] int32, or of the sequence.
at::Tensor PoolStarts(const v1::ModelConfig& config, const at::Tensor& tokens) {
  return UsesDocumentEnd(config) ? DocumentStarts(tokens, config.document_end())
                                 : at::zeros(tokens.sizes(), tokens.options().dtype(at::kInt));
}

}  // namespace

AttentionTables TablesFor(const v1::ModelConfig& config, const at::TensorOptions& options) {
  const AttentionHeads heads = HeadsOf(config);
  // Rotations by angle 0 change nothing, so GPT-2 can use the same attention kernels.
  const std::vector<double> frequencies =
      IsGpt2(config) ? std::vector<double>(heads.width / 2, 0.0)
                     : RotaryFrequencies(heads.width, config.rope_theta(), config.rope_scaling());
  return MakeAttentionTables(config.sequence_length(), heads, frequencies, options);
}

at::Tensor EmbedTokens(const TransformerWeights& weights, const at::Tensor& tokens,
                       const at::Tensor& positions) {
  at::Tensor embedded = at::embedding(weights.embedding, tokens);
  if (weights.noise.bound > 0) {
    embedded = embedded + NoiseOfTokens(weights.noise, tokens, positions, embedded.size(1));
  }
  if (!weights.positions.defined()) return embedded;
  return embedded + at::embedding(weights.positions, positions);
}

at::Tensor AddAttention(const LayerWeights& weights, const at::Tensor& h, const at::Tensor& mixed,
                        const InputDropout& dropout) {
  const at::Tensor& bias = weights.attention_output_bias;
  return AdaptedLinear(mixed, weights.attention_output, bias.defined() ? h + bias : h,
                       weights.adapters.attention_output, dropout);
}

at::Tensor ProjectQkv(const v1::ModelConfig& config, const LayerWeights& weights,
                      const at::Tensor& h, const InputDropout& dropout) {
  const double epsilon = config.norm_epsilon();
  const at::Tensor x = Normalize(h, weights.attention_norm, epsilon);
  const at::Tensor qkv =
      AdaptedLinear(x, weights.qkv, weights.qkv_bias, weights.adapters.qkv, dropout);
  if (!weights.query_norm.defined()) return qkv;
  const AttentionHeads heads = HeadsOf(config);
  const int64_t query = heads.query_width(), key = heads.key_value_width();
  return at::cat({NormalizeHeads(qkv.narrow(1, 0, query), weights.query_norm, epsilon),
                  NormalizeHeads(qkv.narrow(1, query, key), weights.key_norm, epsilon),
                  qkv.narrow(1, query + key, key)},
                 1);
}

std::vector<LayerChoiceCounts> CountChoices(const std::vector<LayerChoiceTensor>& choices,
                                            const at::Tensor& counted, int num_layers) {
  std::vector<LayerChoiceCounts> result;
  for (const LayerChoiceTensor& layer : choices) {
    const at::Tensor rows = counted.flatten().to(at::kCPU).gt(0).nonzero().flatten();
    const at::Tensor chosen =
        layer.chosen.to(at::kCPU).index_select(0, rows).flatten().to(at::kLong);
    const at::Tensor counts = at::bincount(chosen, /*weights=*/{}, num_layers).to(at::kLong);
    result.push_back(
        {layer.layer, {counts.data_ptr<int64_t>(), counts.data_ptr<int64_t>() + counts.numel()}});
  }
  return result;
}

HiddenStates RunTransformer(const v1::ModelConfig& config, const TransformerWeights& weights,
                            const AttentionTables& tables, const at::Tensor& tokens, MergeMode mode,
                            RoutingContext context, const at::Tensor& first_visible) {
  // As in decoding, documents also end within the examples of a batch.
  const at::Tensor visible = Later(FirstVisible(config, tokens), first_visible);
  context.tokens = tokens;
  std::optional<DocumentSegments> segments;
  if (CutsAtDocuments(config.routing()) && !RoutesTokens(config.routing())) {
    const at::Tensor starts = DocumentStarts(tokens, config.document_end());
    segments = CutAtDocuments(Later(starts, first_visible), config.routing());
    context.segments = &*segments;
  }
  if (config.routing().token().has_document_pool()) {
    context.document_starts = Later(PoolStarts(config, tokens), first_visible);
  }
  if (mode == MergeMode::kTraining && config.has_dropout()) context.dropout = &config.dropout();
  const FullPass pass(config, weights, tables, mode);
  const LayerMixer mixer(config, weights.mixing);
  const MixingUnits units =
      config.has_layer_mixing()
          ? UnitsOf(visible, context.counted, tokens.size(0), tokens.size(1), tokens.device())
          : MixingUnits();
  HiddenStates result;
  at::Tensor h = EmbedTokens(weights, tokens.flatten(), PositionsOf(tokens, visible));
  if (context.embedding_noise > 0) {
    const at::Tensor& examples = first_visible.defined() ? first_visible : visible;
    h = h + EmbeddingNoise(context, examples, tokens.sizes(), config.d_model()).to(h.device());
  }
  if (context.on_layer_output) context.on_layer_output(-1, h);
  // The head needs the last layer's output only where it counts.
  at::Tensor wanted;
  const int last = config.num_layers() - 1;
  if (pass.CanLeaveOut(last, context)) wanted = FewCounted(context.counted);
  for (int layer = 0; layer <= last; ++layer) {
    context.layer = layer;
    const at::Tensor rows = layer == last ? wanted : at::Tensor();
    const RoutedFfn own = pass.Layer(layer, h, visible, context, rows);
    if (own.weights.defined()) result.routing.push_back({layer, own.weights, own.chosen});
    if (own.input_sum.defined()) result.input_sums.push_back(own.input_sum);
    AddTo(own.balance_loss, &result.balance_loss);
    AddTo(own.dropout_loss, &result.dropout_loss);
    if (mixer.Mixes(layer)) {
      const at::Tensor z = h.view({tokens.size(0), tokens.size(1), -1});
      at::Tensor balance;
      const MixingChoice choice =
          mixer.Choose(z, units, mode == MergeMode::kTraining, context, &balance);
      AddTo(balance, &result.mixing_loss);
      result.choices.push_back({layer, mixer.LayersOf(choice)});
      h = pass.AddOthers(mixer.PartsOf(layer, choice), z, own.output, visible, context, rows);
    } else {
      h = own.output;
    }
    if (context.on_layer_output) context.on_layer_output(layer, h);
  }
  result.hidden = Normalize(h, weights.final_norm, config.norm_epsilon());
  if (wanted.defined()) {
    const at::Tensor all = at::zeros({tokens.numel(), h.size(1)}, h.options());
    result.hidden = all.index_copy(0, wanted, result.hidden);
  }
  return result;
}

}  // namespace braid
