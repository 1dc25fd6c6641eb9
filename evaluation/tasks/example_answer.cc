#include "evaluation/tasks/example_answer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "evaluation/tasks/answer_loss.h"

namespace braid {
namespace {

// Sum of ln p of a continuation, and its number of tokens.
struct Sum {
  double log_prob = 0;
  int64_t num_tokens = 0;
};

absl::Status CheckFinite(double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the model gives ", value,
                                          ", expected a finite number; its weights are damaged "
                                          "or its training diverged"));
}

absl::StatusOr<std::vector<Sum>> Score(const ScoredPrompt& prompt, Decoder& decoder) {
  RETURN_IF_ERROR(decoder.Prefill(prompt.context).status());
  ASSIGN_OR_RETURN(const auto scores, decoder.ScoreContinuations(prompt.continuations));
  std::vector<Sum> sums;
  for (const std::vector<float>& tokens : scores) {
    sums.push_back(
        {std::accumulate(tokens.begin(), tokens.end(), 0.0), static_cast<int64_t>(tokens.size())});
    RETURN_IF_ERROR(CheckFinite(sums.back().log_prob));
  }
  return sums;
}

absl::Status ScoreChoices(const Question& question, Decoder& decoder, ExampleAnswer* answer) {
  for (const ScoredPrompt& prompt : question.prompts) {
    ASSIGN_OR_RETURN(const std::vector<Sum> sums, Score(prompt, decoder));
    for (const Sum& sum : sums) answer->choices.push_back({sum.log_prob, sum.num_tokens, 0});
  }
  return absl::OkStatus();
}

absl::Status ScoreUnconditionally(const ScoredPrompt& prompt, Decoder& decoder,
                                  ExampleAnswer* answer) {
  ASSIGN_OR_RETURN(const std::vector<Sum> sums, Score(prompt, decoder));
  for (size_t i = 0; i < sums.size(); ++i) {
    answer->choices[i].unconditional_log_prob = sums[i].log_prob;
  }
  return absl::OkStatus();
}

bool NeedsUnconditional(const v1::TaskSpec& spec) {
  return std::ranges::find(spec.figures(), v1::ACC_UNCONDITIONAL) != spec.figures().end();
}

// Returns the most likely of the first `vocab_size` tokens, or of all when it is 0.
int32_t MostLikely(std::span<const float> logits, int32_t vocab_size) {
  if (vocab_size > 0) logits = logits.first(static_cast<size_t>(vocab_size));
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// Returns where the first stop sequence begins; npos if there is none.
size_t FindStop(const v1::FreeAnswer& free, const std::string& text) {
  if (free.stop().empty()) return text.find('\n');
  size_t first = std::string::npos;
  for (const std::string& stop : free.stop()) first = std::min(first, text.find(stop));
  return first;
}

absl::StatusOr<std::string> Write(const LoadedTask& task, const std::vector<int32_t>& context,
                                  const Asking& asking) {
  const TextCodec& codec = asking.codec;
  ASSIGN_OR_RETURN(std::vector<float> logits, asking.decoder.Prefill(context));
  const int64_t room = asking.context_length - static_cast<int64_t>(context.size());
  const int64_t most = std::min<int64_t>(MaxAnswerTokens(task.spec), room);
  // The first word of a text loses its leading space; after the prompt's last token it keeps it.
  std::vector<int32_t> tokens = {context.back()};
  const size_t begin = codec.decode(tokens).size();
  std::string text;
  for (int64_t i = 0; i < most; ++i) {
    const int32_t token = MostLikely(logits, codec.vocab_size);
    RETURN_IF_ERROR(CheckFinite(logits[static_cast<size_t>(token)]));
    if (token == codec.eos_id) break;
    tokens.push_back(token);
    text = codec.decode(tokens).substr(begin);
    const size_t stop = FindStop(task.spec.free(), text);
    if (stop != std::string::npos) {
      text.resize(stop);
      break;
    }
    if (i + 1 < most) {
      ASSIGN_OR_RETURN(logits, asking.decoder.Step(token));
    }
  }
  return std::string(absl::StripAsciiWhitespace(text));
}

absl::Status AnswerFreely(const LoadedTask& task, const Question& question, const Asking& asking,
                          ExampleAnswer* answer) {
  if (asking.score_references) {
    ASSIGN_OR_RETURN(const std::vector<Sum> sums,
                     Score(ReferencePrompt(task, answer->example, asking.shots, question.num_shots,
                                           asking.codec, asking.context_length),
                           asking.decoder));
    answer->reference = ChoiceScore{sums[0].log_prob, sums[0].num_tokens, 0};
  }
  if (!NeedsText(task.spec)) return absl::OkStatus();
  ASSIGN_OR_RETURN(answer->text, Write(task, question.prompts[0].context, asking));
  return absl::OkStatus();
}

absl::StatusOr<ExampleAnswer> Answer(const LoadedTask& task, int64_t example,
                                     const Asking& asking) {
  const Question question =
      MakeQuestion(task, example, asking.shots, asking.codec, asking.context_length);
  ExampleAnswer answer;
  answer.example = example;
  answer.num_shots = question.num_shots;
  answer.shortened = question.shortened;
  if (task.spec.has_free()) {
    RETURN_IF_ERROR(AnswerFreely(task, question, asking, &answer));
    return answer;
  }
  RETURN_IF_ERROR(ScoreChoices(question, asking.decoder, &answer));
  if (NeedsUnconditional(task.spec)) {
    RETURN_IF_ERROR(ScoreUnconditionally(
        UnconditionalPrompt(task, example, asking.codec, asking.context_length),
        asking.unconditional, &answer));
  }
  return answer;
}

}  // namespace

absl::StatusOr<ExampleAnswer> AnswerExample(const LoadedTask& task, int64_t example,
                                            const Asking& asking) {
  absl::StatusOr<ExampleAnswer> answer = Answer(task, example, asking);
  if (answer.ok()) return answer;
  return absl::Status(answer.status().code(),
                      absl::StrCat("task \"", task.spec.name(), "\", ",
                                   task.examples[static_cast<size_t>(example)].where, ": ",
                                   answer.status().message()));
}

}  // namespace braid
