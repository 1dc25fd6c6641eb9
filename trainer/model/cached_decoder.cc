#include "trainer/model/cached_decoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"
#include "trainer/kernels/rms_norm.h"
#include "trainer/model/routing/router.h"
#include "trainer/model/tensor_guard.h"

namespace braid {

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

absl::StatusOr<std::vector<std::vector<float>>> CachedDecoder::ScoreContinuations(
    std::span<const std::vector<int32_t>> /*continuations*/) {
  return absl::UnimplementedError("ScoreContinuations");
}

std::vector<ExpertMixture> CachedDecoder::Mixtures() const {
  std::vector<ExpertMixture> mixtures;
  for (const LayerState& state : layers_) mixtures.push_back(state.ffn->Mixture());
  return mixtures;
}

void CachedDecoder::Reset() {
  const int64_t heads = config_.num_heads(), d = config_.d_model();
  const at::TensorOptions options = weights_.embedding.options();
  const LayerRouters routers(config_);
  layers_.clear();
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    const at::Tensor cache =
        at::empty({2, heads, config_.sequence_length(), d / heads}, options.requires_grad(false));
    layers_.push_back({cache[0], cache[1],
                       routers.Of(static_cast<int>(i)).Incremental(weights_.layers[i].ffn, mode_)});
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
    h = state.ffn->AddFfn(h, RmsNorm(h, w.ffn_norm, epsilon));
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

std::vector<float> CachedDecoder::Logits(const at::Tensor& hidden) const {
  const at::Tensor logits = at::mm(hidden, weights_.head.t()).to(at::kCPU, at::kFloat).contiguous();
  const float* const data = logits.data_ptr<float>();
  return std::vector<float>(data, data + logits.numel());
}

}  // namespace braid
