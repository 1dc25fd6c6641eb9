// Next-token scores of one growing sequence, with a key-value cache.
//
//   auto decoder = model->NewDecoder(MergeMode::kPrompt);
//   ASSIGN_OR_RETURN(std::vector<float> logits, decoder->Prefill(prompt));
//   ASSIGN_OR_RETURN(logits, decoder->Step(ArgMax(logits)));
//
// kPrompt: every layer routes once, on the mean FFN input of all prompt tokens,
// and is a dense layer from then on. kSegment: as LanguageModel::Logits; the
// first segment routes on the tokens of it that the prompt holds (or uniformly,
// as configured), each later one on the whole segment before it (PREFIX: all on
// the first). EXPERT_CHOICE_TOKEN routes every token by itself in both.
#ifndef BRAID_MODEL_CONFIG_DECODER_H_
#define BRAID_MODEL_CONFIG_DECODER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

// The matrices of one FFN as sums over the layer's experts: gate and up are
// sum_i gate_up[i] W_i, down is sum_i down[i] W_i. Both are empty when there is no
// such FFN: in a dense layer, and with EXPERT_CHOICE_TOKEN.
struct ExpertMixture {
  std::vector<float> gate_up;  // [E]
  std::vector<float> down;     // [E]
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Starts a new sequence with `prompt` (at least one token). Returns the logits
  // [V] of the token after it. Tokens at its beginning that the decoder holds from the
  // sequence before are not computed again where routing permits (reused_tokens), so
  // the last digits may depend on that sequence: within 1e-5 of a new decoder's. InvalidArgument
  // when the prompt is empty, longer than sequence_length or holds an id outside the vocabulary.
  virtual absl::StatusOr<std::vector<float>> Prefill(std::span<const int32_t> prompt) = 0;

  // How many tokens of the last prompt were there already. kSegment: all that is common
  // with the sequence before, if both prompts agree on the tokens that their first segment
  // routes on. kPrompt: only those of the very same prompt. Without layers that route by
  // segment or prompt: all that is common. The last token is always computed.
  virtual int64_t reused_tokens() const { return 0; }

  // Appends `token`; returns the logits [V] of the token after it. OutOfRange
  // when the sequence is sequence_length long already; FailedPrecondition before
  // Prefill.
  virtual absl::StatusOr<std::vector<float>> Step(int32_t token) = 0;

  // ln p of each token of each of C continuations (at least one token each) of the
  // sequence so far, which stays as it is: [C][tokens]. They are one batch over the shared
  // sequence. InvalidArgument for an empty continuation, one that ends beyond
  // sequence_length or an id outside the vocabulary; FailedPrecondition before Prefill.
  virtual absl::StatusOr<std::vector<std::vector<float>>> ScoreContinuations(
      std::span<const std::vector<int32_t>> continuations) = 0;

  // Of the FFN in use in every layer. Empty before Prefill.
  virtual std::vector<ExpertMixture> Mixtures() const = 0;
};

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_DECODER_H_
