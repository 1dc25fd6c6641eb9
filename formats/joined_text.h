// Tokenization of a text and its continuation: by the rule of lm-evaluation-harness for evaluation
// and generation, and exactly for training on answers.
#ifndef BRAID_FORMATS_JOINED_TEXT_H_
#define BRAID_FORMATS_JOINED_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

namespace braid {

struct JoinedTokens {
  std::vector<int32_t> context;
  std::vector<std::vector<int32_t>> continuations;
};

// Encodes a context and its continuations, each of which becomes the tokens that encode(context +
// continuation) has beyond encode(context). White space at the end of the context moves to the
// continuations, since tokenizers attach it to the word after it (the rule of
// lm-evaluation-harness, HFLM._encode_pair). A continuation that the tokenizer drops is empty; one
// that merges into the context's tokens is the last token of both.
JoinedTokens EncodeJoined(absl::FunctionRef<std::vector<int32_t>(std::string_view)> encode,
                          std::string_view context, std::span<const std::string> continuations);

// Returns encode(context + continuation), divided where encode(context) ends, as above. If a token
// joins characters of both, as in "exp" + "erts", the division is before the first token in which
// the two encodings differ, so that the tokens always spell the text.
JoinedTokens EncodeExactly(absl::FunctionRef<std::vector<int32_t>(std::string_view)> encode,
                           std::string_view context, const std::string& continuation);

}  // namespace braid

#endif  // BRAID_FORMATS_JOINED_TEXT_H_
