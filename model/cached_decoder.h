// The implementation of Decoder: a key-value cache, and per layer the FFN chosen by its router.
// Tensor code: private to model/.
#ifndef BRAID_MODEL_CACHED_DECODER_H_
#define BRAID_MODEL_CACHED_DECODER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "model/config/decoder.h"
#include "model/config/merge_mode.h"
#include "model/kernels/causal_attention.h"
#include "model/sequence_state.h"
#include "model/transformer.h"

namespace braid {

// A Decoder of a LanguageModel (model/config/decoder.h). Not thread-safe.
class CachedDecoder final : public Decoder {
 public:
  // `weights` and `tables` must outlive the decoder. `routing_seed` as in RoutingContext. `usable`
  // is returned by Prefill when it is an error.
  CachedDecoder(v1::ModelConfig config, const TransformerWeights& weights,
                const AttentionTables& tables, MergeMode mode,
                std::optional<uint64_t> routing_seed = {}, absl::Status usable = absl::OkStatus());

  absl::StatusOr<std::vector<float>> Prefill(std::span<const int32_t> prompt) override;
  absl::StatusOr<std::vector<float>> Step(int32_t token) override;
  absl::StatusOr<std::vector<std::vector<float>>> ScoreContinuations(
      std::span<const std::vector<int32_t>> continuations) override;
  std::vector<ExpertMixture> Mixtures() const override;
  absl::StatusOr<std::unique_ptr<Decoder>> Fork() const override;
  int64_t reused_tokens() const override { return reused_tokens_; }

  // Runs Step on every decoder; all belong to one model. See LanguageModel::StepTogether.
  static absl::StatusOr<std::vector<std::vector<float>>> StepTogether(
      std::span<CachedDecoder* const> decoders, std::span<const int32_t> tokens);

 private:
  absl::Status CheckTokens(std::span<const int32_t> tokens) const;
  absl::Status CheckStep(int32_t token) const;
  absl::Status CheckContinuation(std::span<const int32_t> tokens) const;
  // Returns the number of leading tokens of `prompt` for which the cached state is valid. It is at
  // most prompt.size() - 1, because the hidden state of the last token is always needed.
  int64_t Reusable(std::span<const int32_t> prompt) const;
  // Truncates the sequence to its first `kept` tokens, appends `tokens` and returns the logits
  // after the last one. On an error the sequence is reset.
  absl::StatusOr<std::vector<float>> Continue(int64_t kept, std::span<const int32_t> tokens);
  void Reset();
  void Rewind(int64_t position);
  // Appends any number of tokens and returns the logits [V] after the last one.
  std::vector<float> Append(std::span<const int32_t> tokens);

  CachedDecoder(std::shared_ptr<const v1::ModelConfig> config, const TransformerWeights& weights,
                const AttentionTables& tables, MergeMode mode, std::optional<uint64_t> routing_seed,
                absl::Status usable);
  SequenceState CopyOfSequence() const;

  // Shared with forks, whose FFNs refer to it.
  const std::shared_ptr<const v1::ModelConfig> config_;
  const ModelTensors model_;
  const MergeMode mode_;
  const absl::Status usable_;
  SequenceState sequence_;
  int64_t reused_tokens_ = 0;
};

}  // namespace braid

#endif  // BRAID_MODEL_CACHED_DECODER_H_
