// One text in the making, a token at a time, so that several can take turns.
#ifndef BRAID_INFERENCE_TEXT_GENERATION_H_
#define BRAID_INFERENCE_TEXT_GENERATION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/generation.pb.h"
#include "formats/tokenizer.h"
#include "inference/token_text.h"
#include "model/language_model.h"

namespace braid {

// DataLoss when the tokenizer and the model of a checkpoint have different vocabularies.
absl::Status CheckVocabulary(const Tokenizer& tokenizer, const v1::ModelConfig& model);

// Continues a prompt as the start of a document, until the model ends it (EOS), max_tokens are
// sampled or the context is full. Token i is drawn with a number that depends on the seed and i
// alone, and the decoder is its own: the text is a function of the request, the weights and the
// number of threads, whatever else the model works on between turns.
//
//   ASSIGN_OR_RETURN(auto text, TextGeneration::Create(request, *model, *tokenizer));
//   while (!text->done()) {
//     ASSIGN_OR_RETURN(const v1::GenerateEvent event, text->Advance());
//     out << event.text();
//   }
class TextGeneration {
 public:
  // InvalidArgument for a setting out of range. Looks at neither prompt nor model, so that requests
  // can come in at any time; `model` and `tokenizer` must outlive the result.
  static absl::StatusOr<std::unique_ptr<TextGeneration>> Create(const v1::GenerateRequest& request,
                                                                LanguageModel& model,
                                                                const Tokenizer& tokenizer);

  // Samples one token, the first time after reading the prompt. The event has the characters
  // that are whole by now, perhaps none; the mixtures, when asked for and changed; and done at the
  // end. InvalidArgument for a prompt that does not fit, DataLoss for a model whose logits are no
  // numbers. Requires !done().
  absl::StatusOr<v1::GenerateEvent> Advance();

  // Advance of several that have begun, of one model, which computes their logits together
  // (LanguageModel::StepTogether): more tokens a second, and each text depends on its company by
  // what rounding does to its logits. One result each; one that fails does not end the others.
  static std::vector<absl::StatusOr<v1::GenerateEvent>> AdvanceTogether(
      std::span<TextGeneration* const> texts);

  // Whether the prompt has been read.
  bool begun() const { return decoder_ != nullptr; }
  bool done() const { return event_.done(); }

 private:
  using Seconds = std::chrono::duration<double>;
  using Logits = absl::StatusOr<std::vector<float>>;

  TextGeneration(v1::GenerateRequest request, LanguageModel& model, const Tokenizer& tokenizer);

  Logits NextLogits();
  Logits ReadPrompt();
  absl::StatusOr<v1::GenerateEvent> Take(const std::vector<float>& logits, Seconds spent);
  bool Append(int32_t token);
  void AddRouting();

  const v1::GenerateRequest request_;
  LanguageModel& model_;
  const Tokenizer& tokenizer_;
  std::unique_ptr<Decoder> decoder_;  // from the first turn on: it has memory of the whole context
  std::optional<TokenText> text_;     // likewise
  int64_t num_tokens_ = 0;            // the prompt's too
  int32_t newest_ = 0;
  std::vector<ExpertMixture> mixtures_;  // told last
  Seconds working_{0};
  v1::GenerateEvent event_;
};

}  // namespace braid

#endif  // BRAID_INFERENCE_TEXT_GENERATION_H_
