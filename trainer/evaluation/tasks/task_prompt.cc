#include "trainer/evaluation/tasks/task_prompt.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "trainer/splitmix.h"

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

// The prompt of choice `i` alone where each has its own, else that of all.
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

// True when something was cut.
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

int64_t Reserved(const v1::TaskSpec& spec) { return spec.has_free() ? MaxAnswerTokens(spec) : 0; }

}  // namespace

int MaxAnswerTokens(const v1::TaskSpec& spec) {
  return spec.free().max_tokens() > 0 ? spec.free().max_tokens() : kDefaultMaxTokens;
}

std::vector<int64_t> DrawDemonstrations(const LoadedTask& task, int64_t example, int num_shots,
                                        uint64_t seed) {
  const int64_t pool = static_cast<int64_t>(task.demonstrations.size());
  const int64_t available = pool - (task.demonstrations_are_examples ? 1 : 0);
  const int64_t count = std::min<int64_t>(num_shots, available);
  const uint64_t stream = Mix64(Mix64(seed, task.spec.name()), static_cast<uint64_t>(example));
  std::vector<int64_t> drawn;
  for (uint64_t i = 0; static_cast<int64_t>(drawn.size()) < count; ++i) {
    const double place = UnitInterval(Mix64(stream, i));
    const auto candidate = static_cast<int64_t>(place * static_cast<double>(pool));
    const bool own = task.demonstrations_are_examples && candidate == example;
    if (!own && std::ranges::find(drawn, candidate) == drawn.end()) drawn.push_back(candidate);
  }
  return drawn;
}

std::string PromptText(const LoadedTask& task, std::span<const int64_t> demonstrations,
                       absl::string_view prompt) {
  std::string text = task.spec.description();
  for (const int64_t i : demonstrations) {
    absl::StrAppend(&text, task.demonstrations[static_cast<size_t>(i)], SeparatorOf(task.spec));
  }
  absl::StrAppend(&text, prompt);
  return text;
}

ScoredPrompt EncodePair(const TextCodec& codec, absl::string_view context,
                        std::span<const std::string> continuations) {
  const absl::string_view kept = absl::StripTrailingAsciiWhitespace(context);
  const absl::string_view moved = context.substr(kept.size());
  const std::vector<int32_t> tokens = codec.encode(std::string(kept));
  ScoredPrompt prompt;
  prompt.context.push_back(codec.eos_id);
  prompt.context.insert(prompt.context.end(), tokens.begin(), tokens.end());
  for (const std::string& continuation : continuations) {
    std::vector<int32_t> whole = codec.encode(absl::StrCat(kept, moved, continuation));
    // A tokenizer that joins everything into the context's tokens leaves the last one.
    const size_t begin = std::min(tokens.size(), whole.size() - 1);
    whole.erase(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(begin));
    prompt.continuations.push_back(std::move(whole));
  }
  return prompt;
}

Question MakeQuestion(const LoadedTask& task, int64_t index, int num_shots, uint64_t seed,
                      const TextCodec& codec, int64_t context_length) {
  const TaskExample& example = task.examples[static_cast<size_t>(index)];
  const std::vector<std::string> continuations = WithDelimiter(task.spec, example);
  std::vector<int64_t> shots = DrawDemonstrations(task, index, num_shots, seed);
  Question question;
  while (true) {
    question.prompts.clear();
    for (size_t i = 0; i < example.prompts.size(); ++i) {
      question.prompts.push_back(
          EncodePair(codec, PromptText(task, shots, example.prompts[i]),
                     ContinuationsOf(continuations, example.prompts.size(), i)));
    }
    if (shots.empty() || Fits(question.prompts, Reserved(task.spec), context_length)) break;
    shots.pop_back();
    question.shortened = true;
  }
  for (ScoredPrompt& prompt : question.prompts) {
    question.shortened |= Cut(context_length, Reserved(task.spec), &prompt);
  }
  question.num_shots = static_cast<int>(shots.size());
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

}  // namespace braid
