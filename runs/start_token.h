// The token before a text, as a model was trained with it.
#ifndef BRAID_RUNS_START_TOKEN_H_
#define BRAID_RUNS_START_TOKEN_H_

#include <cstdint>
#include <optional>

#include "braid/v1/model.pb.h"
#include "formats/tokenizer.h"

namespace braid {

// Returns the id of the token that precedes the first token of a text; nullopt when the model's
// texts begin without one, or when it asks for a BOS token that the tokenizer lacks.
inline std::optional<int32_t> StartTokenId(const v1::ModelConfig& model,
                                           const Tokenizer& tokenizer) {
  if (model.start_token() == v1::START_WITH_NONE) return std::nullopt;
  if (model.start_token() != v1::START_WITH_BOS) return tokenizer.eos_id();
  return tokenizer.bos_id() < 0 ? std::nullopt : std::optional(tokenizer.bos_id());
}

}  // namespace braid

#endif  // BRAID_RUNS_START_TOKEN_H_
