// Encodes the parts of a conversation as tokens: one rule for training on answers and for
// generating them.
//
// An answer joins the text before it as in task evaluation (joined_text.h), so that a model sees
// the same tokens when it is trained and when it is asked.
//
//   const std::vector<ChatPart> parts = RenderChat(chat, turns, false, /*for_generation=*/true);
//   const std::vector<int32_t> prompt = EncodeChat(parts, markers, encode).tokens;
#ifndef BRAID_FORMATS_CHAT_ENCODING_H_
#define BRAID_FORMATS_CHAT_ENCODING_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "formats/chat_template.h"

namespace braid {

// A half-open range of tokens.
struct TokenRange {
  int32_t begin = 0;
  int32_t end = 0;
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

struct EncodedChat {
  // At least one token; the first is the start token of `markers`, if there is one.
  std::vector<int32_t> tokens;
  // The answers, each with the token that ends it. None begins at token 0.
  std::vector<TokenRange> answers;
  // True if the tokenizer leaves no token of an answer.
  bool has_empty_answer = false;
};

// Encodes parts of RenderChat. Only markers become control tokens, whatever the texts contain.
// White space at the end of a text belongs to the answer after it, also when that answer is still
// to be generated.
EncodedChat EncodeChat(std::span<const ChatPart> parts, const ChatMarkers& markers,
                       absl::FunctionRef<std::vector<int32_t>(std::string_view)> encode);

}  // namespace braid

#endif  // BRAID_FORMATS_CHAT_ENCODING_H_
