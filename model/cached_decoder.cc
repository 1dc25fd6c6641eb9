#include "model/cached_decoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/advance.h"
#include "model/config/layer_mixing_config.h"
#include "model/continuation_scores.h"
#include "model/tensor_guard.h"

namespace braid {
namespace {

// Copies only the positions of the cache that are in use.
LayerState CopyOf(const LayerState& layer, int64_t position) {
  const at::Tensor cache = at::empty(
      {2, layer.keys.size(0), layer.keys.size(1), layer.keys.size(2)}, layer.keys.options());
  cache[0].narrow(1, 0, position).copy_(layer.keys.narrow(1, 0, position));
  cache[1].narrow(1, 0, position).copy_(layer.values.narrow(1, 0, position));
  return {cache[0], cache[1], layer.ffn->Clone(), layer.position};
}

}  // namespace

CachedDecoder::CachedDecoder(v1::ModelConfig config, const TransformerWeights& weights,
                             const AttentionTables& tables, MergeMode mode,
                             std::optional<uint64_t> routing_seed, absl::Status usable)
    : CachedDecoder(std::make_shared<const v1::ModelConfig>(std::move(config)), weights, tables,
                    mode, routing_seed, std::move(usable)) {}

CachedDecoder::CachedDecoder(std::shared_ptr<const v1::ModelConfig> config,
                             const TransformerWeights& weights, const AttentionTables& tables,
                             MergeMode mode, std::optional<uint64_t> routing_seed,
                             absl::Status usable)
    : config_(std::move(config)),
      model_{*config_, weights, tables, routing_seed},
      mode_(mode),
      usable_(std::move(usable)) {}

absl::StatusOr<std::vector<float>> CachedDecoder::Prefill(std::span<const int32_t> prompt) {
  if (prompt.empty()) {
    return absl::InvalidArgumentError("prompt: no tokens, expected at least one");
  }
  const auto limit = static_cast<size_t>(model_.config.sequence_length());
  if (prompt.size() > limit) {
    return absl::InvalidArgumentError(absl::StrCat("prompt: ", prompt.size(),
                                                   " tokens, expected at most sequence_length ",
                                                   limit, "; shorten it"));
  }
  RETURN_IF_ERROR(CheckTokens(prompt));
  RETURN_IF_ERROR(CheckMixingInference(*config_));
  RETURN_IF_ERROR(usable_);
  reused_tokens_ = Reusable(prompt);
  ASSIGN_OR_RETURN(std::vector<float> logits,
                   Continue(reused_tokens_, prompt.subspan(reused_tokens_)));
  sequence_.prompt_length = std::ssize(prompt);
  return logits;
}

absl::StatusOr<std::vector<float>> CachedDecoder::Step(int32_t token) {
  RETURN_IF_ERROR(CheckStep(token));
  return Continue(sequence_.position(), {&token, 1});
}

absl::StatusOr<std::vector<std::vector<float>>> CachedDecoder::StepTogether(
    std::span<CachedDecoder* const> decoders, std::span<const int32_t> tokens) {
  std::vector<SequenceState*> sequences;
  for (size_t i = 0; i < decoders.size(); ++i) {
    const absl::Status status = decoders[i]->CheckStep(tokens[i]);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("sequence ", i, ": ", status.message()));
    }
    sequences.push_back(&decoders[i]->sequence_);
  }
  if (sequences.empty()) return std::vector<std::vector<float>>();
  auto logits = WithoutGradients<std::vector<std::vector<float>>>(
      [&] { return AdvanceTogether(decoders[0]->model_, tokens, sequences); });
  // Some layers may hold the new position and others not, so none of the caches can be used again.
  if (!logits.ok()) {
    for (SequenceState* sequence : sequences) *sequence = {};
  }
  return logits;
}

absl::StatusOr<std::vector<std::vector<float>>> CachedDecoder::ScoreContinuations(
    std::span<const std::vector<int32_t>> continuations) {
  if (sequence_.tokens.empty()) {
    return absl::FailedPreconditionError("ScoreContinuations was called before Prefill");
  }
  for (size_t i = 0; i < continuations.size(); ++i) {
    const absl::Status status = CheckContinuation(continuations[i]);
    if (status.ok()) continue;
    return absl::Status(status.code(), absl::StrCat("continuation ", i, ": ", status.message()));
  }
  return WithoutGradients<std::vector<std::vector<float>>>(
      [&] { return ContinuationScores(model_, continuations, &sequence_); });
}

absl::StatusOr<std::unique_ptr<Decoder>> CachedDecoder::Fork() const {
  if (sequence_.tokens.empty()) {
    return absl::FailedPreconditionError("Fork was called before Prefill");
  }
  std::unique_ptr<CachedDecoder> fork(new CachedDecoder(config_, model_.weights, model_.tables,
                                                        mode_, model_.routing_seed, usable_));
  ASSIGN_OR_RETURN(fork->sequence_,
                   WithoutGradients<SequenceState>([this] { return CopyOfSequence(); }));
  return fork;
}

SequenceState CachedDecoder::CopyOfSequence() const {
  SequenceState copy;
  copy.tokens = sequence_.tokens;
  copy.prompt_length = sequence_.prompt_length;
  copy.mode = sequence_.mode;
  copy.config = sequence_.config;
  copy.routing_seed = sequence_.routing_seed;
  copy.active_experts = sequence_.active_experts;
  // Shared with the copy: a step replaces this tensor and never writes to it.
  copy.last_hidden = sequence_.last_hidden;
  const int64_t position = sequence_.position();
  for (const LayerState& layer : sequence_.layers) copy.layers.push_back(CopyOf(layer, position));
  for (const auto& [number, mixing] : sequence_.mixing) {
    MixingState& to = copy.mixing[number];
    if (mixing.inputs.defined()) {
      to.inputs = at::empty_like(mixing.inputs);
      to.inputs.narrow(0, 0, position).copy_(mixing.inputs.narrow(0, 0, position));
    }
    to.choice = mixing.choice;
    for (const auto& [other, layer] : mixing.others) to.others[other] = CopyOf(layer, position);
  }
  return copy;
}

absl::Status CachedDecoder::CheckTokens(std::span<const int32_t> tokens) const {
  for (int32_t token : tokens) {
    if (token < 0 || token >= model_.config.vocab_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", token, ", expected 0 to ", model_.config.vocab_size() - 1));
    }
  }
  return absl::OkStatus();
}

absl::Status CachedDecoder::CheckStep(int32_t token) const {
  const int64_t limit = model_.config.sequence_length();
  if (sequence_.tokens.empty())
    return absl::FailedPreconditionError("Step was called before Prefill");
  if (sequence_.position() >= limit) {
    return absl::OutOfRangeError(
        absl::StrCat("the sequence is full: it has reached sequence_length ", limit));
  }
  return CheckTokens({&token, 1});
}

absl::Status CachedDecoder::CheckContinuation(std::span<const int32_t> tokens) const {
  if (tokens.empty()) return absl::InvalidArgumentError("no tokens, expected at least one");
  const auto room = static_cast<size_t>(model_.config.sequence_length() - sequence_.position());
  if (tokens.size() > room) {
    return absl::InvalidArgumentError(absl::StrCat(
        tokens.size(), " tokens, expected at most ", room, ": the sequence has ",
        sequence_.position(), " of sequence_length ", model_.config.sequence_length()));
  }
  return CheckTokens(tokens);
}

std::vector<ExpertMixture> CachedDecoder::Mixtures() const {
  std::vector<ExpertMixture> mixtures;
  for (const LayerState& state : sequence_.layers) mixtures.push_back(state.ffn->Mixture());
  return mixtures;
}

// A cached position is valid for the new prompt if its token and all tokens before it are the same,
// and if each layer's routing of it did not depend on tokens that differ. The hidden state of the
// last prompt token is not cached, so at least one token is always computed.
int64_t CachedDecoder::Reusable(std::span<const int32_t> prompt) const {
  const std::vector<int32_t>& held = sequence_.tokens;
  // The layers of a mixing layer were chosen by the whole prompt, or by the last document.
  if (MixesByPrompt(*config_)) {
    const auto decided = std::span(held).first(sequence_.prompt_length);
    if (MixesByPosition(*config_) || !std::ranges::equal(decided, prompt)) return 0;
  }
  const auto differ = std::mismatch(held.begin(), held.end(), prompt.begin(), prompt.end());
  const int64_t common = differ.first - held.begin(), length = std::ssize(prompt);
  int64_t kept = std::min(common, length - 1);
  for (const LayerState& layer : sequence_.layers) {
    kept = std::min(kept, layer.ffn->Reusable(common, length));
  }
  for (const auto& [layer, mixing] : sequence_.mixing) {
    for (const auto& [other, state] : mixing.others) {
      if (state.position > 0) kept = std::min(kept, state.ffn->Reusable(common, length));
    }
  }
  return kept;
}

absl::StatusOr<std::vector<float>> CachedDecoder::Continue(int64_t kept,
                                                           std::span<const int32_t> tokens) {
  auto logits = WithoutGradients<std::vector<float>>([&] {
    if (kept == 0) {
      Reset();
    } else if (kept < sequence_.position()) {
      Rewind(kept);
    }
    return Append(tokens);
  });
  if (!logits.ok()) sequence_ = {};
  return logits;
}

// MixingState::choice needs no rewinding: Reusable returns 0 where another prompt decides.
void CachedDecoder::Rewind(int64_t position) {
  sequence_.tokens.resize(position);
  const auto rewind = [&](LayerState& state) {
    // A layer that only some positions have chosen may lag behind the sequence.
    if (state.position <= position) return;
    state.ffn->Rewind(position);
    state.position = position;
  };
  for (LayerState& layer : sequence_.layers) rewind(layer);
  for (auto& [layer, mixing] : sequence_.mixing) {
    for (auto& [other, state] : mixing.others) rewind(state);
  }
}

void CachedDecoder::Reset() {
  const v1::ModelConfig& config = model_.config;
  sequence_ = {};
  sequence_.active_experts = config.routing().token().active_experts();
  sequence_.mode = mode_;
  sequence_.config = config_.get();
  sequence_.routing_seed = model_.routing_seed;
  for (int i = 0; i < config.num_layers(); ++i) {
    sequence_.layers.push_back(NewLayerState(model_, i, mode_));
  }
  if (MixesNothing(config)) return;
  const at::TensorOptions options = model_.weights.embedding.options().requires_grad(false);
  for (const int layer : MixingLayers(config)) {
    MixingState& mixing = sequence_.mixing[layer];
    if (!MixesByPosition(config)) continue;
    mixing.inputs = at::empty({config.sequence_length(), config.d_model()}, options);
  }
}

std::vector<float> CachedDecoder::Append(std::span<const int32_t> tokens) {
  Advance(model_, tokens, &sequence_);
  return LogitRows(model_, sequence_.last_hidden)[0];
}

}  // namespace braid
