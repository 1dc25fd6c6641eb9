#include "evaluation/tasks/example_answer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
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

// Scores the choices as classes of a label head.
absl::Status ScoreClasses(const std::vector<int32_t>& prompt, const Asking& asking,
                          ExampleAnswer* answer) {
  ASSIGN_OR_RETURN(const std::vector<float> logits, asking.decoder.Prefill(prompt));
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  for (const size_t i : asking.classes) {
    const double log_prob = logits[i] - most - std::log(sum);
    RETURN_IF_ERROR(CheckFinite(log_prob));
    answer->choices.push_back({log_prob, 1, 0});
  }
  return absl::OkStatus();
}

absl::Status PredictNumber(const std::vector<int32_t>& prompt, const Asking& asking,
                           ExampleAnswer* answer) {
  ASSIGN_OR_RETURN(const std::vector<float> output, asking.decoder.Prefill(prompt));
  answer->number = output.at(0);
  return CheckFinite(*answer->number);
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

// The text of generated tokens. The first word of a text loses its leading space; after the
// prompt's last token it keeps it.
class AnswerDecoding {
 public:
  AnswerDecoding(const v1::FreeAnswer& free, const TextCodec& codec, int32_t last_token)
      : free_(free), codec_(codec), last_(last_token), begin_(codec.decode({&last_, 1}).size()) {}

  std::string Text(std::span<const int32_t> tokens) const {
    std::vector<int32_t> all = {last_};
    all.insert(all.end(), tokens.begin(), tokens.end());
    return codec_.decode(all).substr(begin_);
  }
  // Returns the text before the first stop sequence; nullopt if there is none yet.
  std::optional<std::string> Stopped(std::span<const int32_t> tokens) const {
    const std::string text = Text(tokens);
    const size_t stop = FindStop(free_, text);
    return stop == text.npos ? std::nullopt : std::optional(text.substr(0, stop));
  }

 private:
  const v1::FreeAnswer& free_;
  const TextCodec& codec_;
  const int32_t last_;
  const size_t begin_;
};

absl::StatusOr<std::vector<int32_t>> SearchTokens(const v1::FreeAnswer& free,
                                                  const AnswerDecoding& decoding,
                                                  const std::vector<int32_t>& context,
                                                  std::vector<float> logits, int64_t most,
                                                  const Asking& asking) {
  BeamOptions options = {.num_beams = free.num_beams(),
                         .length_penalty = free.has_length_penalty() ? free.length_penalty() : 1,
                         .no_repeat_ngram = free.no_repeat_ngram(),
                         .ends = {asking.codec.eos_id},
                         .max_tokens = most,
                         .vocab_size = asking.codec.vocab_size};
  options.is_complete = [&](std::span<const int32_t> tokens) {
    return decoding.Stopped(tokens).has_value();
  };
  options.step = asking.step_together;
  BeamSearch search(std::move(options), asking.decoder, context, std::move(logits));
  while (!search.done()) RETURN_IF_ERROR(search.Advance());
  return search.best().tokens;
}

// Returns the most likely token after each, until an end.
absl::StatusOr<std::vector<int32_t>> GreedyTokens(const v1::FreeAnswer& free,
                                                  const AnswerDecoding& decoding,
                                                  std::vector<int32_t> sequence,
                                                  std::vector<float> logits, int64_t most,
                                                  const Asking& asking) {
  const TextCodec& codec = asking.codec;
  std::vector<int32_t> tokens;
  while (std::ssize(tokens) < most) {
    BanRepeatedNgrams(sequence, free.no_repeat_ngram(), {&codec.eos_id, 1}, logits);
    const int32_t token = MostLikely(logits, codec.vocab_size);
    RETURN_IF_ERROR(CheckFinite(logits[static_cast<size_t>(token)]));
    if (token == codec.eos_id) break;
    tokens.push_back(token);
    sequence.push_back(token);
    if (decoding.Stopped(tokens).has_value()) break;
    if (std::ssize(tokens) < most) {
      ASSIGN_OR_RETURN(logits, asking.decoder.Step(token));
    }
  }
  return tokens;
}

absl::StatusOr<std::string> Write(const LoadedTask& task, const std::vector<int32_t>& context,
                                  const Asking& asking) {
  const v1::FreeAnswer& free = task.spec.free();
  ASSIGN_OR_RETURN(std::vector<float> logits, asking.decoder.Prefill(context));
  const int64_t room = asking.context_length - static_cast<int64_t>(context.size());
  const int64_t most = std::min<int64_t>(MaxAnswerTokens(task.spec), room);
  if (most < 1) return "";
  const AnswerDecoding decoding(free, asking.codec, context.back());
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                   free.num_beams() > 1
                       ? SearchTokens(free, decoding, context, std::move(logits), most, asking)
                       : GreedyTokens(free, decoding, context, std::move(logits), most, asking));
  const std::string text = decoding.Stopped(tokens).value_or(decoding.Text(tokens));
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
  if (task.spec.has_number() || !asking.classes.empty()) {
    ExampleAnswer answer;
    answer.example = example;
    const std::vector<int32_t> prompt =
        BarePrompt(task, example, asking.codec, asking.context_length, &answer.shortened);
    RETURN_IF_ERROR(task.spec.has_number() ? PredictNumber(prompt, asking, &answer)
                                           : ScoreClasses(prompt, asking, &answer));
    return answer;
  }
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
