// The Decoder of a model: key-value cache, and the FFN that each layer's router
// has decided on.
// Tensor code: private to trainer/model.
#ifndef BRAID_MODEL_CACHED_DECODER_H_
#define BRAID_MODEL_CACHED_DECODER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "model/config/decoder.h"
#include "model/config/merge_mode.h"
#include "model/kernels/causal_attention.h"
#include "model/sequence_state.h"
#include "model/transformer.h"

namespace braid {

class CachedDecoder final : public Decoder {
 public:
  // `weights` and `tables` stay valid as long as the decoder.
  CachedDecoder(const v1::ModelConfig& config, const TransformerWeights& weights,
                const AttentionTables& tables, MergeMode mode);

  absl::StatusOr<std::vector<float>> Prefill(std::span<const int32_t> prompt) override;
  absl::StatusOr<std::vector<float>> Step(int32_t token) override;
  absl::StatusOr<std::vector<std::vector<float>>> ScoreContinuations(
      std::span<const std::vector<int32_t>> continuations) override;
  std::vector<ExpertMixture> Mixtures() const override;
  int64_t reused_tokens() const override { return reused_tokens_; }

  // Step of every decoder, all of one model, as LanguageModel::StepTogether.
  static absl::StatusOr<std::vector<std::vector<float>>> StepTogether(
      std::span<CachedDecoder* const> decoders, std::span<const int32_t> tokens);

 private:
  absl::Status CheckTokens(std::span<const int32_t> tokens) const;
  absl::Status CheckStep(int32_t token) const;
  absl::Status CheckContinuation(std::span<const int32_t> tokens) const;
  // Tokens at the beginning of `prompt` that the state is right for; one less than all
  // at most, as the last one's hidden state is needed.
  int64_t Reusable(std::span<const int32_t> prompt) const;
  // Keeps the first `kept` tokens, appends `tokens` and returns the logits after the last.
  // An error ends the sequence.
  absl::StatusOr<std::vector<float>> Continue(int64_t kept, std::span<const int32_t> tokens);
  void Reset();
  void Rewind(int64_t position);
  // Any number of tokens.
  std::vector<float> Append(std::span<const int32_t> tokens);

  const ModelTensors model_;
  const MergeMode mode_;
  SequenceState sequence_;
  int64_t reused_tokens_ = 0;
};

}  // namespace braid

#endif  // BRAID_MODEL_CACHED_DECODER_H_
