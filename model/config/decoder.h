// Next-token scores of one growing sequence, with a key-value cache.
//
//   auto decoder = model->NewDecoder(MergeMode::kPrompt);
//   ASSIGN_OR_RETURN(std::vector<float> logits, decoder->Prefill(prompt));
//   ASSIGN_OR_RETURN(logits, decoder->Step(ArgMax(logits)));
//
// Prompt routing (kPrompt): every layer routes once, on the mean FFN input of all prompt tokens,
// and is a dense layer from then on. Segment routing (kSegment): the same as LanguageModel::Logits;
// the first segment routes on those of its tokens that are in the prompt (or uniformly, as
// configured), and each later segment routes on the whole segment before it (PREFIX: all route on
// the first). EXPERT_CHOICE_TOKEN routes every token on its own in both modes.
#ifndef BRAID_MODEL_CONFIG_DECODER_H_
#define BRAID_MODEL_CONFIG_DECODER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

// The merged FFN of one layer as weighted sums over its experts: gate and up are sum_i gate_up[i]
// W_i, down is sum_i down[i] W_i. Both vectors are empty when the layer has no such FFN: in a dense
// layer, and with EXPERT_CHOICE_TOKEN.
struct ExpertMixture {
  std::vector<float> gate_up;  // [E]
  std::vector<float> down;     // [E]
};

// A model with the state of one sequence. Not thread-safe; the model must outlive it.
// V: vocabulary.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Starts a new sequence with `prompt` (at least one token). Returns the logits [V] of the token
  // after it. Leading tokens shared with the previous sequence are not computed again where routing
  // permits (see reused_tokens), so logits may depend on that sequence within 1e-5 of those of a
  // new decoder. InvalidArgument when the prompt is empty, longer than sequence_length or holds an
  // id outside the vocabulary.
  virtual absl::StatusOr<std::vector<float>> Prefill(std::span<const int32_t> prompt) = 0;

  // Returns how many tokens of the last prompt were reused from the previous sequence. kSegment:
  // the common prefix, if both prompts agree on the tokens on which their first segment routes.
  // kPrompt: the prompt without its last token, if both prompts are equal, otherwise 0. Without
  // layers that route by segment or prompt: the common prefix. With layers that mix by the decision
  // SEQUENCE: as kPrompt, but 0 with the mask DOCUMENT. The last token is always computed.
  virtual int64_t reused_tokens() const { return 0; }

  // Appends `token`; returns the logits [V] of the token after it. OutOfRange when the sequence
  // already has sequence_length tokens; FailedPrecondition before Prefill.
  virtual absl::StatusOr<std::vector<float>> Step(int32_t token) = 0;

  // Returns ln p of each token of each of C continuations (at least one token each) of the current
  // sequence, [C][tokens]. The sequence is unchanged; the continuations are one batch over its
  // cache. InvalidArgument for a continuation that is empty, ends beyond sequence_length or holds
  // an id outside the vocabulary; FailedPrecondition before Prefill.
  virtual absl::StatusOr<std::vector<std::vector<float>>> ScoreContinuations(
      std::span<const std::vector<int32_t>> continuations) = 0;

  // Returns a decoder of the same model that continues a copy of the current sequence; each of the
  // two is unaffected by the other. FailedPrecondition before Prefill, ResourceExhausted when the
  // copy of the cache does not fit into memory.
  virtual absl::StatusOr<std::unique_ptr<Decoder>> Fork() const = 0;

  // Returns the mixture of the FFN in use, by layer. Empty before Prefill.
  virtual std::vector<ExpertMixture> Mixtures() const = 0;
};

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_DECODER_H_
