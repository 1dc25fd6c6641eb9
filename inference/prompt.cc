#include "inference/prompt.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "runs/start_token.h"

namespace braid {
namespace {

// An upper estimate of the bytes per token of most tokenizers.
constexpr size_t kBytesPerToken = 8;
// Cutting a text changes the tokens next to the cut, and their number by no more than this.
constexpr int64_t kCutTokens = 64;

absl::Status TooLong(const std::string& got, int64_t context) {
  return absl::InvalidArgumentError(absl::StrCat("prompt: got ", got, " tokens, expected at most ",
                                                 context, " (the model's sequence_length)"));
}

}  // namespace

std::vector<int32_t> PromptTokens(const v1::ModelConfig& model, const Tokenizer& tokenizer,
                                  const std::string& text) {
  std::vector<int32_t> tokens = tokenizer.Encode(text);
  const std::optional<int32_t> start = StartTokenId(model, tokenizer);
  if (start.has_value() || tokens.empty()) {
    tokens.insert(tokens.begin(), start.value_or(tokenizer.eos_id()));
  }
  return tokens;
}

absl::StatusOr<std::vector<int32_t>> FittingPromptTokens(const v1::ModelConfig& model,
                                                         const Tokenizer& tokenizer,
                                                         const std::string& text) {
  const int64_t context = model.sequence_length();
  const int64_t too_many = context + kCutTokens;
  for (size_t bytes = static_cast<size_t>(too_many) * kBytesPerToken; bytes < text.size();
       bytes *= 2) {
    const size_t beginning = tokenizer.Encode(text.substr(0, bytes)).size();
    if (static_cast<int64_t>(beginning) > too_many) {
      return TooLong(absl::StrCat("more than ", context), context);
    }
  }
  std::vector<int32_t> tokens = PromptTokens(model, tokenizer, text);
  if (static_cast<int64_t>(tokens.size()) <= context) return tokens;
  return TooLong(absl::StrCat(tokens.size()), context);
}

}  // namespace braid
