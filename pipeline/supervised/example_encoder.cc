#include "pipeline/supervised/example_encoder.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "evaluation/tasks/task_prompt.h"

namespace braid {
namespace {

TextCodec CodecOf(const Tokenizer& tokenizer, WordEncoder* words) {
  TextCodec codec;
  codec.encode = [words](std::string_view text) {
    std::vector<int32_t> ids;
    words->Encode(text, &ids);
    return ids;
  };
  codec.eos_id = tokenizer.eos_id();
  // A first token that TakeTokens removes again, so that an empty context stays empty.
  codec.start_id = tokenizer.eos_id();
  return codec;
}

// Appends tokens, of text that follows the tokens so far, from parts of a conversation.
class TokenWriter {
 public:
  TokenWriter(const TextCodec& codec, const std::optional<int32_t>& start_id, EncodedExample* out)
      : codec_(codec), out_(*out) {
    if (start_id.has_value()) out_.tokens.push_back(*start_id);
  }

  void Text(std::string_view text) { context_ += text; }

  void Token(int32_t id) {
    Flush(/*before_answer=*/false);
    out_.tokens.push_back(id);
  }

  // Appends an answer, which begins a range of targets.
  void Answer(const std::string& text) {
    const ScoredPrompt pair = EncodePair(codec_, context_, std::span(&text, 1));
    context_.clear();
    Append(std::span(pair.context).subspan(1));
    // The first target needs a token before it.
    if (out_.tokens.empty()) out_.tokens.push_back(codec_.eos_id);
    const auto begin = static_cast<int32_t>(out_.tokens.size());
    if (pair.continuations[0].empty()) out_.fault = "answer without tokens";
    Append(pair.continuations[0]);
    out_.targets.push_back({begin, static_cast<int32_t>(out_.tokens.size())});
  }

  // Appends the token that ends the answer, a target.
  void EndOfTurn(int32_t id) {
    out_.tokens.push_back(id);
    ++out_.targets.back().end;
  }

  // Encodes the text so far; before an answer without the white space that joins the answer.
  void Flush(bool before_answer) {
    if (before_answer) absl::StripTrailingAsciiWhitespace(&context_);
    if (!context_.empty()) Append(codec_.encode(context_));
    context_.clear();
  }

 private:
  void Append(std::span<const int32_t> tokens) {
    out_.tokens.insert(out_.tokens.end(), tokens.begin(), tokens.end());
  }

  const TextCodec& codec_;
  EncodedExample& out_;
  std::string context_;  // text that is not encoded yet
};

}  // namespace

ExampleEncoder::ExampleEncoder(const Tokenizer& tokenizer, const EncodingOptions& options)
    : tokenizer_(tokenizer), options_(options), markers_(tokenizer, options.start_id) {}

EncodedExample ExampleEncoder::EncodeParts(const std::vector<ChatPart>& parts,
                                           WordEncoder* words) const {
  EncodedExample example;
  const TextCodec codec = CodecOf(tokenizer_, words);
  TokenWriter writer(codec, options_.start_id, &example);
  for (const ChatPart& part : parts) {
    switch (part.kind) {
      case ChatPart::kText:
        writer.Text(part.text);
        break;
      case ChatPart::kMarker:
        if (const std::optional<int32_t> id = markers_.Find(part); id.has_value()) {
          writer.Token(*id);
        } else if (!part.text.starts_with('{')) {
          writer.Text(part.text);
        }
        break;
      case ChatPart::kAnswer:
        writer.Answer(part.text);
        break;
      case ChatPart::kEndOfTurn:
        writer.EndOfTurn(markers_.Find(part).value_or(tokenizer_.eos_id()));
        break;
    }
  }
  writer.Flush(/*before_answer=*/true);
  return example;
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

EncodedExample ExampleEncoder::Encode(const SupervisedRecord& record, WordEncoder* words) const {
  EncodedExample example =
      EncodeParts(RenderChat(options_.chat, record.turns, record.literal), words);
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
  std::vector<int32_t> tokens =
      EncodeParts(RenderChat(options_.chat, record.turns, record.literal, /*for_generation=*/true),
                  words)
          .tokens;
  if (tokens.empty()) tokens.push_back(tokenizer_.eos_id());
  return tokens;
}

}  // namespace braid
