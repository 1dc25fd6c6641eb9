// Converts a prompt to the tokens at the start of a sequence.
#ifndef BRAID_INFERENCE_PROMPT_H_
#define BRAID_INFERENCE_PROMPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/generation.pb.h"
#include "braid/v1/model.pb.h"
#include "formats/tokenizer.h"

namespace braid {

// Returns the model's start token (ModelConfig.start_token), if it has one, and the tokens of the
// text. An empty text begins with EOS even without a start token, because a sequence needs a token.
std::vector<int32_t> PromptTokens(const v1::ModelConfig& model, const Tokenizer& tokenizer,
                                  const std::string& text);

// Returns PromptTokens, or InvalidArgument when there are more than the model's sequence_length.
// Reads little more of the text than fits, so that an overlong text is rejected quickly whatever
// its length.
absl::StatusOr<std::vector<int32_t>> FittingPromptTokens(const v1::ModelConfig& model,
                                                         const Tokenizer& tokenizer,
                                                         const std::string& text);

struct GenerationPrompt {
  std::vector<int32_t> tokens;
  // Token that ends an answer of the chat template, besides EOS.
  std::optional<int32_t> end_of_turn;
};

// Returns the tokens from which a request continues: FittingPromptTokens of its prompt or, with
// `chat`, those that precede the answer to it in an example of fine-tuning. InvalidArgument also
// for a template that does not exist, for a model without one, and for settings of chats without
// `chat`.
absl::StatusOr<GenerationPrompt> PromptOf(const v1::GenerateRequest& request,
                                          const v1::ModelConfig& model, const Tokenizer& tokenizer);

// Returns the errors of PromptOf that do not depend on the prompt.
absl::Status CheckChat(const v1::GenerateRequest& request, const v1::ModelConfig& model);

}  // namespace braid

#endif  // BRAID_INFERENCE_PROMPT_H_
