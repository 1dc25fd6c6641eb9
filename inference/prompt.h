// How a text becomes the beginning of a sequence.
#ifndef BRAID_INFERENCE_PROMPT_H_
#define BRAID_INFERENCE_PROMPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/tokenizer.h"

namespace braid {

// EOS and the text: documents follow an EOS in training, so a document begins
// after one.
std::vector<int32_t> PromptTokens(const Tokenizer& tokenizer, const std::string& text);

// PromptTokens, or InvalidArgument when there are more than `context`. Does not read much more of
// the text than what fits: that one is too long is known soon, however long it is.
absl::StatusOr<std::vector<int32_t>> FittingPromptTokens(const Tokenizer& tokenizer,
                                                         const std::string& text, int64_t context);

}  // namespace braid

#endif  // BRAID_INFERENCE_PROMPT_H_
