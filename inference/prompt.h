// Converts a prompt to the tokens at the start of a sequence.
#ifndef BRAID_INFERENCE_PROMPT_H_
#define BRAID_INFERENCE_PROMPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/tokenizer.h"

namespace braid {

// Returns EOS and the tokens of the text: in training every document follows an EOS.
std::vector<int32_t> PromptTokens(const Tokenizer& tokenizer, const std::string& text);

// Returns PromptTokens, or InvalidArgument when there are more than `context`. Reads little more of
// the text than fits, so that an overlong text is rejected quickly whatever its length.
absl::StatusOr<std::vector<int32_t>> FittingPromptTokens(const Tokenizer& tokenizer,
                                                         const std::string& text, int64_t context);

}  // namespace braid

#endif  // BRAID_INFERENCE_PROMPT_H_
