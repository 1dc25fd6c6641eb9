#include "evaluation/tasks/task_prompt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/joined_text.h"

namespace braid {
namespace {

constexpr int kDefaultMaxTokens = 32;

std::vector<std::string> WithDelimiter(const v1::TaskSpec& spec, const TaskExample& example) {
  std::vector<std::string> texts;
  for (const std::string& text : example.continuations) {
    texts.push_back(absl::StrCat(DelimiterOf(spec), text));
  }
  return texts;
}

// Returns the continuation of choice `i` if each choice has its own prompt, otherwise all of them.
std::span<const std::string> ContinuationsOf(std::span<const std::string> all, size_t num_prompts,
                                             size_t i) {
  return num_prompts > 1 ? all.subspan(i, 1) : all;
}

int64_t LongestContinuation(const ScoredPrompt& prompt, int64_t reserved) {
  for (const auto& continuation : prompt.continuations) {
    reserved = std::max(reserved, static_cast<int64_t>(continuation.size()));
  }
  return reserved;
}

void KeepRightEnd(int64_t size, std::vector<int32_t>* tokens) {
  if (static_cast<int64_t>(tokens->size()) > size)
    tokens->erase(tokens->begin(), tokens->end() - size);
}

// Truncates the prompt to the context; returns whether anything was removed.
bool Cut(int64_t context_length, int64_t reserved, ScoredPrompt* prompt) {
  const int64_t longest = LongestContinuation(*prompt, reserved);
  if (static_cast<int64_t>(prompt->context.size()) + longest <= context_length) return false;
  KeepRightEnd(std::max<int64_t>(context_length - longest, 1), &prompt->context);
  for (auto& continuation : prompt->continuations) KeepRightEnd(context_length - 1, &continuation);
  return true;
}

bool Fits(const std::vector<ScoredPrompt>& prompts, int64_t reserved, int64_t context_length) {
  return std::ranges::all_of(prompts, [&](const ScoredPrompt& prompt) {
    return static_cast<int64_t>(prompt.context.size()) + LongestContinuation(prompt, reserved) <=
           context_length;
  });
}

using Prompts = std::vector<ScoredPrompt>;
using Shots = std::span<const Demonstration* const>;

Prompts EncodeQuestion(const v1::TaskSpec& spec, const TaskExample& example, Shots shots,
                       const TextCodec& codec) {
  const std::vector<std::string> continuations = WithDelimiter(spec, example);
  Prompts prompts;
  for (size_t i = 0; i < example.prompts.size(); ++i) {
    prompts.push_back(EncodePair(codec, PromptText(spec, shots, example.prompts[i]),
                                 ContinuationsOf(continuations, example.prompts.size(), i)));
  }
  return prompts;
}

// Estimates how many demonstrations fit before a bare question, from their own token counts.
size_t GuessShots(Shots shots, const Prompts& bare, int64_t reserved, int64_t context_length) {
  int64_t room = context_length;
  for (const ScoredPrompt& prompt : bare) {
    const auto size = static_cast<int64_t>(prompt.context.size());
    room = std::min(room, context_length - size - LongestContinuation(prompt, reserved));
  }
  size_t count = 0;
  while (count < shots.size() && (room -= shots[count]->num_tokens) >= 0) ++count;
  return count;
}

// Returns how much of the context is kept free for a written answer. At least half of it stays for
// the prompt, however long answers may be.
int64_t Reserved(const v1::TaskSpec& spec, int64_t context_length) {
  return spec.has_free() ? std::min<int64_t>(MaxAnswerTokens(spec), context_length / 2) : 0;
}

}  // namespace

int MaxAnswerTokens(const v1::TaskSpec& spec) {
  return spec.free().max_tokens() > 0 ? spec.free().max_tokens() : kDefaultMaxTokens;
}

std::string PromptText(const v1::TaskSpec& spec, Shots shots, absl::string_view prompt) {
  std::string text = spec.description();
  for (const Demonstration* shot : shots) text += shot->text;
  absl::StrAppend(&text, prompt);
  return text;
}

ScoredPrompt EncodePair(const TextCodec& codec, absl::string_view context,
                        std::span<const std::string> continuations) {
  JoinedTokens joined = EncodeJoined(codec.encode, {context.data(), context.size()}, continuations);
  ScoredPrompt prompt;
  // The decoder needs at least one token before the continuations.
  if (codec.start_id.has_value() || joined.context.empty()) {
    prompt.context.push_back(codec.start_id.value_or(codec.eos_id));
  }
  prompt.context.insert(prompt.context.end(), joined.context.begin(), joined.context.end());
  prompt.continuations = std::move(joined.continuations);
  return prompt;
}

Question MakeQuestion(const LoadedTask& task, int64_t index, const DemonstrationSet& set,
                      const TextCodec& codec, int64_t context_length) {
  const TaskExample& example = task.examples[static_cast<size_t>(index)];
  const std::vector<const Demonstration*> shots = set.For(example);
  const int64_t reserved = Reserved(task.spec, context_length);
  const auto encode = [&](size_t count) {
    return EncodeQuestion(task.spec, example, Shots(shots).first(count), codec);
  };
  Prompts prompts = encode(0);
  size_t count = GuessShots(shots, prompts, reserved, context_length);
  if (count > 0) prompts = encode(count);
  while (count > 0 && !Fits(prompts, reserved, context_length)) prompts = encode(--count);
  while (count < shots.size()) {
    Prompts more = encode(count + 1);
    if (!Fits(more, reserved, context_length)) break;
    prompts = std::move(more);
    ++count;
  }
  Question question = {std::move(prompts), static_cast<int>(count), count < shots.size()};
  for (ScoredPrompt& prompt : question.prompts) {
    question.shortened |= Cut(context_length, reserved, &prompt);
  }
  return question;
}

ScoredPrompt UnconditionalPrompt(const LoadedTask& task, int64_t index, const TextCodec& codec,
                                 int64_t context_length) {
  const TaskExample& example = task.examples[static_cast<size_t>(index)];
  ScoredPrompt prompt =
      EncodePair(codec, example.unconditional_context, WithDelimiter(task.spec, example));
  Cut(context_length, 0, &prompt);
  return prompt;
}

ScoredPrompt ReferencePrompt(const LoadedTask& task, int64_t index, const DemonstrationSet& set,
                             int num_shots, const TextCodec& codec, int64_t context_length) {
  const TaskExample& example = task.examples[static_cast<size_t>(index)];
  const std::vector<const Demonstration*> shots = set.For(example);
  const std::vector<std::string> reference = {
      absl::StrCat(DelimiterOf(task.spec), example.references[0])};
  const Shots shown = Shots(shots).first(static_cast<size_t>(num_shots));
  ScoredPrompt prompt =
      EncodePair(codec, PromptText(task.spec, shown, example.prompts[0]), reference);
  Cut(context_length, Reserved(task.spec, context_length), &prompt);
  return prompt;
}

std::vector<int32_t> BarePrompt(const LoadedTask& task, int64_t index, const TextCodec& codec,
                                int64_t context_length, bool* shortened) {
  const TaskExample& example = task.examples[static_cast<size_t>(index)];
  ScoredPrompt prompt = EncodePair(codec, PromptText(task.spec, {}, example.prompts[0]), {});
  *shortened = std::ssize(prompt.context) > context_length;
  KeepRightEnd(context_length, &prompt.context);
  return std::move(prompt.context);
}

}  // namespace braid
