// How a text becomes the beginning of a sequence.
#ifndef BRAID_TRAINER_GENERATION_PROMPT_H_
#define BRAID_TRAINER_GENERATION_PROMPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "formats/tokenizer.h"

namespace braid {

// EOS and the text: documents follow an EOS in training, so a document begins
// after one.
inline std::vector<int32_t> PromptTokens(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> tokens = tokenizer.Encode(text);
  tokens.insert(tokens.begin(), tokenizer.eos_id());
  return tokens;
}

}  // namespace braid

#endif  // BRAID_TRAINER_GENERATION_PROMPT_H_
