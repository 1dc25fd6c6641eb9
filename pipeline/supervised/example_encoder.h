// Encodes a conversation as tokens and marks the tokens that are targets of the loss.
//
// Text and control tokens come from a chat template (formats/chat_template.h), and their tokens are
// those of generation (formats/chat_encoding.h).
#ifndef BRAID_PIPELINE_SUPERVISED_EXAMPLE_ENCODER_H_
#define BRAID_PIPELINE_SUPERVISED_EXAMPLE_ENCODER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/chat_encoding.h"
#include "formats/chat_template.h"
#include "formats/tokenizer.h"
#include "formats/word_encoder.h"
#include "pipeline/supervised/supervised_record.h"

namespace braid {

// Which tokens are targets: those of all answers, of the last answer, or all but the first.
enum class LossOn { kAnswers, kLastAnswer, kEverything };

// Guarantees, if `fault` is empty: 0 < begin < end <= tokens.size() for every target range; ranges
// ascend, do not overlap, and the last one ends with the example.
struct EncodedExample {
  std::vector<int32_t> tokens;
  std::vector<TokenRange> targets;
  // Tokens removed from the left of the prompt because the example was too long.
  int32_t num_cut = 0;
  // Answers that were removed with them.
  int32_t num_cut_answers = 0;
  // The label, with EncodingOptions.labels: the last answer without white space around it.
  std::string label = {};
  int32_t source = 0;  // SupervisedRecord.source
  // Why it cannot be trained on; empty if it can.
  std::string fault;
};

struct EncodingOptions {
  ChatTemplate chat;
  LossOn loss_on = LossOn::kAnswers;
  // Maximum length in tokens: sequence_length + 1.
  int64_t max_tokens = 0;
  // The token before the first one (runs/start_token.h).
  std::optional<int32_t> start_id;
  // Examples are a prompt and its label: the prompt's tokens, then EOS, the only target, which
  // stands for the label.
  bool labels = false;
};

// Thread-safe. The tokenizer must outlive it.
class ExampleEncoder {
 public:
  ExampleEncoder(const Tokenizer& tokenizer, const EncodingOptions& options);

  // Encodes a record. An example of more than max_tokens loses tokens from its left: of prompts, or
  // whole answers with all before them, never a part of an answer. `words` must be of the same
  // tokenizer.
  EncodedExample Encode(const SupervisedRecord& record, WordEncoder* words) const;

  // Returns the tokens after which a model generates the next answer of a conversation: those that
  // precede the answer in Encode.
  std::vector<int32_t> EncodePrompt(const SupervisedRecord& record, WordEncoder* words) const;

  const ChatMarkers& markers() const { return markers_; }

 private:
  EncodedChat EncodeParts(const std::vector<ChatPart>& parts, WordEncoder* words) const;
  EncodedExample EncodeLabeled(const SupervisedRecord& record, WordEncoder* words) const;
  void Shorten(EncodedExample* example) const;

  const EncodingOptions options_;
  const ChatMarkers markers_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_SUPERVISED_EXAMPLE_ENCODER_H_
