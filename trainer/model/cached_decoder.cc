#include "trainer/model/cached_decoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"
#include "trainer/kernels/rms_norm.h"
#include "trainer/kernels/soft_merge.h"
#include "trainer/kernels/swiglu.h"
#include "trainer/model/segment_router.h"
#include "trainer/model/tensor_guard.h"

namespace braid {
namespace {

std::vector<float> HostValues(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
  const float* const data = host.data_ptr<float>();
  return std::vector<float>(data, data + host.numel());
}

}  // namespace

CachedDecoder::CachedDecoder(const v1::ModelConfig& config, const TransformerWeights& weights,
                             const AttentionTables& tables, MergeMode mode)
    : config_(config), weights_(weights), tables_(tables), mode_(mode) {}

absl::StatusOr<std::vector<float>> CachedDecoder::Prefill(std::span<const int32_t> prompt) {
  if (prompt.empty()) {
    return absl::InvalidArgumentError("prompt: no tokens, expected at least one");
  }
  const auto limit = static_cast<size_t>(config_.sequence_length());
  if (prompt.size() > limit) {
    return absl::InvalidArgumentError(absl::StrCat("prompt: ", prompt.size(),
                                                   " tokens, expected at most sequence_length ",
                                                   limit, "; shorten it"));
  }
  RETURN_IF_ERROR(CheckTokens(prompt));
  return WithoutGradients<std::vector<float>>([&] {
    Reset();
    const size_t step = mode_ == MergeMode::kPrompt ? limit : config_.routing().segment_length();
    at::Tensor hidden;
    for (size_t start = 0; start < prompt.size(); start += step) {
      hidden = Advance(prompt.subspan(start, std::min(step, prompt.size() - start)));
    }
    return Logits(hidden);
  });
}

absl::StatusOr<std::vector<float>> CachedDecoder::Step(int32_t token) {
  if (position_ == 0) return absl::FailedPreconditionError("Step before Prefill");
  if (position_ >= config_.sequence_length()) {
    return absl::OutOfRangeError(
        absl::StrCat("the sequence has reached sequence_length ", config_.sequence_length()));
  }
  RETURN_IF_ERROR(CheckTokens({&token, 1}));
  return WithoutGradients<std::vector<float>>([&] { return Logits(Advance({&token, 1})); });
}

absl::Status CachedDecoder::CheckTokens(std::span<const int32_t> tokens) const {
  for (int32_t token : tokens) {
    if (token < 0 || token >= config_.vocab_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", token, ", expected 0 to ", config_.vocab_size() - 1));
    }
  }
  return absl::OkStatus();
}

std::vector<std::vector<float>> CachedDecoder::RoutingWeights() const {
  std::vector<std::vector<float>> routing;
  for (const LayerState& state : layers_) {
    routing.push_back(state.routing.defined() ? HostValues(state.routing) : std::vector<float>());
  }
  return routing;
}

void CachedDecoder::Reset() {
  const int64_t heads = config_.num_heads(), d = config_.d_model();
  const at::TensorOptions options = weights_.embedding.options();
  layers_.clear();
  for (const LayerWeights& w : weights_.layers) {
    const at::Tensor cache =
        at::empty({2, heads, config_.sequence_length(), d / heads}, options.requires_grad(false));
    LayerState state{cache[0], cache[1], {}, {}, at::zeros({d}, options.requires_grad(false)), {}};
    if (!w.router.defined()) {
      state.gate_up = w.gate_up;
      state.down = w.down;
    }
    layers_.push_back(state);
  }
  position_ = 0;
}

at::Tensor CachedDecoder::Advance(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  const at::Tensor ids = at::tensor(at::ArrayRef<int32_t>(tokens.data(), tokens.size()), at::kLong)
                             .to(weights_.embedding.device());
  const double epsilon = config_.norm_epsilon();
  at::Tensor h = at::embedding(weights_.embedding, ids);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerWeights& w = weights_.layers[i];
    LayerState& state = layers_[i];
    h = at::addmm(h, Attend(w, h, &state), w.attention_output.t());
    const at::Tensor x = RmsNorm(h, w.ffn_norm, epsilon);
    if (w.router.defined()) UpdateFfn(w, x, &state);
    h = at::addmm(h, SwiGluForward(at::mm(x, state.gate_up.t())), state.down);
  }
  position_ += count;
  return RmsNorm(h.narrow(0, count - 1, 1), weights_.final_norm, epsilon);
}

at::Tensor CachedDecoder::Attend(const LayerWeights& w, const at::Tensor& h, LayerState* state) {
  const int64_t count = h.size(0);
  const at::Tensor qkv =
      at::mm(RmsNorm(h, w.attention_norm, config_.norm_epsilon()), w.qkv.t()).unsqueeze(0);
  const RotatedHeads heads = RotateHeads(qkv, tables_, position_);
  state->keys.narrow(1, position_, count).copy_(heads.k[0]);
  state->values.narrow(1, position_, count).copy_(heads.v[0]);
  const at::Tensor mixed = CausalAttend(heads.q[0], state->keys.narrow(1, 0, position_ + count),
                                        state->values.narrow(1, 0, position_ + count));
  return mixed.transpose(0, 1).reshape({count, -1});
}

// Merges a new FFN where a decision is due, then adds x [n, D] to the mean that
// the next decision is made from.
void CachedDecoder::UpdateFfn(const LayerWeights& w, const at::Tensor& x, LayerState* state) {
  const v1::RoutingConfig& routing = config_.routing();
  const bool first = position_ == 0;
  const bool boundary = mode_ == MergeMode::kSegment && position_ % routing.segment_length() == 0;
  if (first || boundary) {
    at::Tensor weights;
    if (first && mode_ == MergeMode::kSegment && routing.first_segment() == v1::UNIFORM) {
      weights = UniformWeights({1, w.router.size(0)}, x.options());
    } else {
      const at::Tensor mean = first ? x.mean(0) : state->segment_sum / routing.segment_length();
      weights = braid::RoutingWeights(mean.unsqueeze(0), w.router, routing);
    }
    const MergedFfn merged = MergeExperts(weights, {w.gate_up, w.down});
    state->gate_up = merged.gate_up[0];
    state->down = merged.down[0];
    state->segment_sum.zero_();
    state->routing = weights;
  }
  state->segment_sum.add_(x.sum(0));
}

std::vector<float> CachedDecoder::Logits(const at::Tensor& hidden) const {
  return HostValues(at::mm(hidden, weights_.head.t()));
}

}  // namespace braid
