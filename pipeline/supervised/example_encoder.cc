#include "pipeline/supervised/example_encoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"

namespace braid {

ExampleEncoder::ExampleEncoder(const Tokenizer& tokenizer, const EncodingOptions& options)
    : options_(options), markers_(tokenizer, options.start_id) {}

EncodedChat ExampleEncoder::EncodeParts(const std::vector<ChatPart>& parts,
                                        WordEncoder* words) const {
  return EncodeChat(parts, markers_, [words](std::string_view text) {
    std::vector<int32_t> ids;
    words->Encode(text, &ids);
    return ids;
  });
}

// Removes tokens from the left until the example fits.
void ExampleEncoder::Shorten(EncodedExample* example) const {
  const auto length = static_cast<int64_t>(example->tokens.size());
  int64_t cut = std::max<int64_t>(length - options_.max_tokens, 0);
  if (cut == 0) return;
  size_t first = 0;
  // An answer needs a token before it, and is removed whole or not at all.
  while (first < example->targets.size() && cut > example->targets[first].begin - 1) {
    cut = std::max<int64_t>(cut, example->targets[first++].end);
  }
  if (first == example->targets.size()) {
    const TokenRange& last = example->targets.back();
    example->fault = "answer longer than the sequence";
    example->num_cut = last.end - last.begin;
    return;
  }
  example->tokens.erase(example->tokens.begin(), example->tokens.begin() + cut);
  example->targets.erase(example->targets.begin(),
                         example->targets.begin() + static_cast<std::ptrdiff_t>(first));
  for (TokenRange& range : example->targets) {
    range.begin -= static_cast<int32_t>(cut);
    range.end -= static_cast<int32_t>(cut);
  }
  example->num_cut = static_cast<int32_t>(cut);
  example->num_cut_answers = static_cast<int32_t>(first);
}

EncodedExample ExampleEncoder::EncodeLabeled(const SupervisedRecord& record,
                                             WordEncoder* words) const {
  SupervisedRecord prompt = record;
  prompt.turns.pop_back();
  EncodedExample example;
  example.label = std::string(absl::StripAsciiWhitespace(record.turns.back().text));
  if (prompt.turns.empty()) example.fault = "label without a prompt";
  if (example.label.empty()) example.fault = "empty label";
  if (!example.fault.empty()) return example;
  example.tokens = EncodePrompt(prompt, words);
  if (example.tokens.empty()) example.tokens.push_back(markers_.eos_id());
  const auto length = static_cast<int32_t>(example.tokens.size());
  example.tokens.push_back(markers_.eos_id());
  example.targets = {{length, length + 1}};
  Shorten(&example);
  return example;
}

EncodedExample ExampleEncoder::Encode(const SupervisedRecord& record, WordEncoder* words) const {
  if (options_.labels) return EncodeLabeled(record, words);
  EncodedChat chat = EncodeParts(RenderChat(options_.chat, record.turns, record.literal), words);
  EncodedExample example;
  example.tokens = std::move(chat.tokens);
  example.targets = std::move(chat.answers);
  if (chat.has_empty_answer) example.fault = "answer without tokens";
  if (!example.fault.empty()) return example;
  if (options_.loss_on == LossOn::kLastAnswer) {
    example.targets.erase(example.targets.begin(), example.targets.end() - 1);
  }
  Shorten(&example);
  if (options_.loss_on == LossOn::kEverything && example.fault.empty()) {
    example.targets = {{1, static_cast<int32_t>(example.tokens.size())}};
  }
  return example;
}

std::vector<int32_t> ExampleEncoder::EncodePrompt(const SupervisedRecord& record,
                                                  WordEncoder* words) const {
  return EncodeParts(
             RenderChat(options_.chat, record.turns, record.literal, /*for_generation=*/true),
             words)
      .tokens;
}

}  // namespace braid
