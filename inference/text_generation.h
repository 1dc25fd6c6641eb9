// One text generation that advances a token at a time, so that several can be interleaved.
#ifndef BRAID_INFERENCE_TEXT_GENERATION_H_
#define BRAID_INFERENCE_TEXT_GENERATION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/generation.pb.h"
#include "formats/tokenizer.h"
#include "inference/token_text.h"
#include "model/config/beam_search.h"
#include "model/language_model.h"

namespace braid {

// Returns DataLoss when the tokenizer of a checkpoint has more pieces than its model.
absl::Status CheckVocabulary(const Tokenizer& tokenizer, const v1::ModelConfig& model);

// Continues a prompt as the start of a document, or answers it as a turn of a chat, until the model
// ends it (EOS or the template's end of turn), max_tokens are sampled or the context is full. Token
// i is drawn with a number that depends only on the seed and i, and each generation has its own
// decoder, so the text is a function of the request, the weights and the number of threads,
// whatever else the model computes in between. A beam search returns its text with the last event.
//
//   ASSIGN_OR_RETURN(auto text, TextGeneration::Create(request, *model, *tokenizer));
//   while (!text->done()) {
//     ASSIGN_OR_RETURN(const v1::GenerateEvent event, text->Advance());
//     out << event.text();
//   }
class TextGeneration {
 public:
  // Creates a generation. InvalidArgument when a setting is out of range. Does not read the prompt
  // or use the model, so requests can be accepted at any time. `model` and `tokenizer` must outlive
  // the result.
  static absl::StatusOr<std::unique_ptr<TextGeneration>> Create(const v1::GenerateRequest& request,
                                                                LanguageModel& model,
                                                                const Tokenizer& tokenizer);

  // Samples one token, or one of every beam; the first call reads the prompt first. The event holds
  // the characters completed by the token, possibly none; the mixtures, if requested and changed;
  // and `done` at the end. InvalidArgument when the prompt does not fit, DataLoss when logits are
  // NaN. Requires !done().
  absl::StatusOr<v1::GenerateEvent> Advance();

  // Advances several generations of one model that have begun, computing their logits as a batch
  // (LanguageModel::StepTogether). This gives more tokens per second, but rounding makes each text
  // depend on the others. Returns one result each; a failure does not affect the others.
  static std::vector<absl::StatusOr<v1::GenerateEvent>> AdvanceTogether(
      std::span<TextGeneration* const> texts);

  // Returns whether the prompt has been read.
  bool begun() const { return decoder_ != nullptr; }
  bool done() const { return event_.done(); }

 private:
  using Seconds = std::chrono::duration<double>;
  using Logits = absl::StatusOr<std::vector<float>>;

  TextGeneration(v1::GenerateRequest request, LanguageModel& model, const Tokenizer& tokenizer);

  Logits NextLogits();
  Logits ReadPrompt();
  absl::StatusOr<v1::GenerateEvent> AdvanceBeams();
  absl::Status BeginBeams();
  std::vector<int32_t> Ends() const;
  // The event's text so far, in a chat without the white space that joins it to the prompt.
  void AppendText(std::string text);
  absl::StatusOr<v1::GenerateEvent> Take(const std::vector<float>& logits, Seconds spent);
  bool Append(int32_t token);
  void AddRouting();

  const v1::GenerateRequest request_;
  LanguageModel& model_;
  const Tokenizer& tokenizer_;
  // created by the first turn, since it allocates the whole context
  std::unique_ptr<Decoder> decoder_;
  std::optional<TokenText> text_;  // created by the first turn
  int64_t num_tokens_ = 0;         // including the prompt
  int32_t newest_ = 0;
  std::vector<int32_t> sequence_;        // prompt and text
  std::optional<int32_t> end_of_turn_;   // ends an answer of the chat
  bool has_text_ = false;                // an event had text
  std::unique_ptr<BeamSearch> search_;   // with several beams
  std::vector<ExpertMixture> mixtures_;  // last reported, by layer
  Seconds working_{0};
  v1::GenerateEvent event_;
};

}  // namespace braid

#endif  // BRAID_INFERENCE_TEXT_GENERATION_H_
