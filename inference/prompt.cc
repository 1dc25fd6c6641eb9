#include "inference/prompt.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "formats/chat_encoding.h"
#include "formats/chat_template.h"
#include "formats/piece_scanner.h"
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

// Refuses a text whose beginning alone is too long.
absl::Status CheckBeginning(const v1::ModelConfig& model, const Tokenizer& tokenizer,
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
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> Fitting(const v1::ModelConfig& model,
                                             std::vector<int32_t> tokens) {
  const int64_t context = model.sequence_length();
  if (static_cast<int64_t>(tokens.size()) <= context) return tokens;
  return TooLong(absl::StrCat(tokens.size()), context);
}

absl::StatusOr<ChatTemplate> TemplateOf(const v1::GenerateRequest& request,
                                        const v1::ModelConfig& model) {
  if (!request.chat_template().empty()) return FindChatTemplate(request.chat_template());
  if (!model.chat_template().empty()) return FindChatTemplate(model.chat_template());
  return absl::InvalidArgumentError(
      absl::StrCat("chat: the model has ", model.unknown_chat_template() ? "an unknown" : "no",
                   " chat template, expected one of ", absl::StrJoin(ChatTemplateNames(), ", "),
                   "; name it with --template"));
}

// Returns the prompt of a request that CheckChat accepts.
absl::StatusOr<GenerationPrompt> EncodedPrompt(const v1::GenerateRequest& request,
                                               const v1::ModelConfig& model,
                                               const Tokenizer& tokenizer) {
  GenerationPrompt prompt;
  if (!request.chat()) {
    ASSIGN_OR_RETURN(prompt.tokens, FittingPromptTokens(model, tokenizer, request.prompt()));
    return prompt;
  }
  RETURN_IF_ERROR(CheckBeginning(model, tokenizer, request.system()));
  RETURN_IF_ERROR(CheckBeginning(model, tokenizer, request.prompt()));
  ASSIGN_OR_RETURN(const ChatTemplate chat, TemplateOf(request, model));
  std::vector<ChatTurn> turns;
  if (!request.system().empty()) turns.push_back({ChatRole::kSystem, request.system()});
  turns.push_back({ChatRole::kUser, request.prompt()});
  const ChatMarkers markers(tokenizer, StartTokenId(model, tokenizer));
  const auto encode = [&](std::string_view text) { return tokenizer.Encode(text); };
  const auto parts = RenderChat(chat, turns, /*literal=*/false, /*for_generation=*/true);
  ASSIGN_OR_RETURN(prompt.tokens, Fitting(model, EncodeChat(parts, markers, encode).tokens));
  prompt.end_of_turn = markers.EndOfTurn(chat);
  return prompt;
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
  RETURN_IF_ERROR(CheckBeginning(model, tokenizer, text));
  return Fitting(model, PromptTokens(model, tokenizer, text));
}

absl::Status CheckChat(const v1::GenerateRequest& request, const v1::ModelConfig& model) {
  if (request.chat()) return TemplateOf(request, model).status();
  const bool system = !request.system().empty();
  if (!system && request.chat_template().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(system ? "system" : "chat_template",
                                                 ": got one without chat, expected chat: true "
                                                 "(--chat)"));
}

absl::StatusOr<GenerationPrompt> PromptOf(const v1::GenerateRequest& request,
                                          const v1::ModelConfig& model,
                                          const Tokenizer& tokenizer) {
  RETURN_IF_ERROR(CheckChat(request, model));
  // A process that serves a model goes on with the other prompts.
  try {
    return EncodedPrompt(request, model, tokenizer);
  } catch (const TokenizationError& error) {
    return absl::InvalidArgumentError(absl::StrCat("prompt: ", error.what()));
  }
}

}  // namespace braid
