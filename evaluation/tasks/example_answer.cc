#include "evaluation/tasks/example_answer.h"

#include <algorithm>
#include <cmath>
#include <memory>
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
absl::StatusOr<int32_t> MostLikely(std::span<const float> logits, int32_t vocab_size) {
  if (vocab_size > 0) logits = logits.first(static_cast<size_t>(vocab_size));
  // Comparisons pass over values that are not numbers.
  if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); })) {
    return CheckFinite(std::nan(""));
  }
  const auto most = std::ranges::max_element(logits);
  RETURN_IF_ERROR(CheckFinite(*most));
  return static_cast<int32_t>(most - logits.begin());
}

constexpr char kWhiteSpace[] = " \t\n\v\f\r";

// Returns where the first stop sequence begins that is not before `begin`; npos if there is none.
size_t FindStop(const v1::FreeAnswer& free, const std::string& text, size_t begin = 0) {
  if (free.stop().empty()) return text.find('\n', begin);
  size_t first = std::string::npos;
  for (const std::string& stop : free.stop()) first = std::min(first, text.find(stop, begin));
  return first;
}

// Returns whether a stop sequence is in the white space between prompt and answer, which a model
// writes first, since it is not in the context.
bool JointStops(const v1::TaskSpec& spec) {
  const std::string text = absl::StrCat(spec.prompt(), DelimiterOf(spec));
  return FindStop(spec.free(), text.substr(text.find_last_not_of(kWhiteSpace) + 1)) != text.npos;
}

// The text of generated tokens. The first word of a text loses its leading space; after the
// prompt's last token it keeps it.
class AnswerDecoding {
 public:
  AnswerDecoding(const v1::TaskSpec& spec, const TextCodec& codec, int32_t last_token)
      : free_(spec.free()),
        joint_stops_(JointStops(spec)),
        codec_(codec),
        last_(last_token),
        begin_(codec.decode({&last_, 1}).size()) {}

  std::string Text(std::span<const int32_t> tokens) const {
    std::vector<int32_t> all = {last_};
    all.insert(all.end(), tokens.begin(), tokens.end());
    return codec_.decode(all).substr(begin_);
  }
  // Returns the text before the first stop sequence; nullopt if there is none yet.
  std::optional<std::string> Stopped(std::span<const int32_t> tokens) const {
    const std::string text = Text(tokens);
    const size_t answer = std::min(text.find_first_not_of(kWhiteSpace), text.size());
    const size_t stop = FindStop(free_, text, joint_stops_ ? answer : 0);
    return stop == text.npos ? std::nullopt : std::optional(text.substr(0, stop));
  }

 private:
  const v1::FreeAnswer& free_;
  const bool joint_stops_;
  const TextCodec& codec_;
  const int32_t last_;
  const size_t begin_;
};

// Returns the text up to a stop sequence, without surrounding white space.
std::string AnswerText(const AnswerDecoding& decoding, std::span<const int32_t> tokens) {
  const std::string text = decoding.Stopped(tokens).value_or(decoding.Text(tokens));
  return std::string(absl::StripAsciiWhitespace(text));
}

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

// A text that is written token by token, the most likely one each time.
class GreedyText {
 public:
  // `logits` are those of the token after `context`. Writes at most `most` tokens.
  GreedyText(const v1::TaskSpec& spec, const TextCodec& codec, std::vector<int32_t> context,
             std::vector<float> logits, int64_t most)
      : free_(spec.free()),
        codec_(codec),
        decoding_(spec, codec, context.back()),
        sequence_(std::move(context)),
        logits_(std::move(logits)),
        most_(most) {}

  // Appends a token, or ends the text. Returns whether the logits after last() are needed.
  absl::StatusOr<bool> Extend() {
    BanRepeatedNgrams(sequence_, free_.no_repeat_ngram(), {&codec_.eos_id, 1}, logits_);
    ASSIGN_OR_RETURN(const int32_t token, MostLikely(logits_, codec_.vocab_size));
    if (token == codec_.eos_id) return false;
    tokens_.push_back(token);
    sequence_.push_back(token);
    return !decoding_.Stopped(tokens_).has_value() && std::ssize(tokens_) < most_;
  }
  int32_t last() const { return tokens_.back(); }
  void set_logits(std::vector<float> logits) { logits_ = std::move(logits); }

  std::string text() const { return AnswerText(decoding_, tokens_); }

 private:
  const v1::FreeAnswer& free_;
  const TextCodec& codec_;
  AnswerDecoding decoding_;
  std::vector<int32_t> sequence_, tokens_;
  std::vector<float> logits_;
  int64_t most_;
};

// A text in progress, and the answer that it belongs to.
struct Writing {
  size_t answer = 0;  // its index
  GreedyText text;
  std::unique_ptr<Decoder> decoder;  // null for Asking.decoder
};

// Names task and example.
absl::Status Located(const LoadedTask& task, int64_t example, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("task \"", task.spec.name(), "\", ",
                                                  task.examples[static_cast<size_t>(example)].where,
                                                  ": ", status.message()));
}

absl::Status StepAll(const Asking& asking, std::vector<Writing>& texts) {
  std::vector<Decoder*> decoders;
  std::vector<int32_t> tokens;
  for (const Writing& writing : texts) {
    decoders.push_back(writing.decoder ? writing.decoder.get() : &asking.decoder);
    tokens.push_back(writing.text.last());
  }
  if (texts.size() == 1) {
    ASSIGN_OR_RETURN(std::vector<float> logits, decoders[0]->Step(tokens[0]));
    texts[0].text.set_logits(std::move(logits));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::vector<std::vector<float>> logits, asking.step_together(decoders, tokens));
  for (size_t i = 0; i < texts.size(); ++i) texts[i].text.set_logits(std::move(logits[i]));
  return absl::OkStatus();
}

// Writes all texts to their ends.
absl::Status WriteAll(const LoadedTask& task, const Asking& asking, std::vector<Writing> texts,
                      std::vector<ExampleAnswer>* answers) {
  while (true) {
    std::vector<Writing> open;
    for (Writing& writing : texts) {
      ExampleAnswer& answer = (*answers)[writing.answer];
      const absl::StatusOr<bool> more = writing.text.Extend();
      if (!more.ok()) return Located(task, answer.example, more.status());
      if (*more) {
        open.push_back(std::move(writing));
      } else {
        answer.text = writing.text.text();
      }
    }
    texts = std::move(open);
    if (texts.empty()) return absl::OkStatus();
    const absl::Status stepped = StepAll(asking, texts);
    if (!stepped.ok()) return Located(task, (*answers)[texts[0].answer].example, stepped);
  }
}

// Completes the last of `answers`: scores its reference and searches its text, or begins one in
// `texts`. `together`: the text is written together with others, so it needs a decoder of its own.
absl::Status AnswerFreely(const LoadedTask& task, const Question& question, const Asking& asking,
                          bool together, std::vector<ExampleAnswer>* answers,
                          std::vector<Writing>* texts) {
  ExampleAnswer& answer = answers->back();
  if (asking.score_references) {
    ASSIGN_OR_RETURN(const std::vector<Sum> sums,
                     Score(ReferencePrompt(task, answer.example, asking.shots, question.num_shots,
                                           asking.codec, asking.context_length),
                           asking.decoder));
    answer.reference = ChoiceScore{sums[0].log_prob, sums[0].num_tokens, 0};
  }
  if (!NeedsText(task.spec)) return absl::OkStatus();
  const v1::FreeAnswer& free = task.spec.free();
  const std::vector<int32_t>& context = question.prompts[0].context;
  ASSIGN_OR_RETURN(std::vector<float> logits, asking.decoder.Prefill(context));
  const int64_t room = asking.context_length - static_cast<int64_t>(context.size());
  const int64_t most = std::min<int64_t>(MaxAnswerTokens(task.spec), room);
  if (most < 1) return absl::OkStatus();
  if (free.num_beams() > 1) {
    const AnswerDecoding decoding(task.spec, asking.codec, context.back());
    ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                     SearchTokens(free, decoding, context, std::move(logits), most, asking));
    answer.text = AnswerText(decoding, tokens);
    return absl::OkStatus();
  }
  std::unique_ptr<Decoder> decoder;
  if (together) {
    ASSIGN_OR_RETURN(decoder, asking.decoder.Fork());
  }
  texts->push_back({.answer = answers->size() - 1,
                    .text = GreedyText(task.spec, asking.codec, context, std::move(logits), most),
                    .decoder = std::move(decoder)});
  return absl::OkStatus();
}

// Adds the answer to `answers`; a text that is not complete also to `texts`.
absl::Status Answer(const LoadedTask& task, int64_t example, const Asking& asking, bool together,
                    std::vector<ExampleAnswer>* answers, std::vector<Writing>* texts) {
  ExampleAnswer& answer = answers->emplace_back();
  answer.example = example;
  if (task.spec.has_number() || !asking.classes.empty()) {
    const std::vector<int32_t> prompt =
        BarePrompt(task, example, asking.codec, asking.context_length, &answer.shortened);
    return task.spec.has_number() ? PredictNumber(prompt, asking, &answer)
                                  : ScoreClasses(prompt, asking, &answer);
  }
  const Question question =
      MakeQuestion(task, example, asking.shots, asking.codec, asking.context_length);
  answer.num_shots = question.num_shots;
  answer.shortened = question.shortened;
  if (task.spec.has_free()) {
    return AnswerFreely(task, question, asking, together, answers, texts);
  }
  RETURN_IF_ERROR(ScoreChoices(question, asking.decoder, &answer));
  if (!NeedsUnconditional(task.spec)) return absl::OkStatus();
  return ScoreUnconditionally(
      UnconditionalPrompt(task, example, asking.codec, asking.context_length), asking.unconditional,
      &answer);
}

}  // namespace

size_t MostAnswersTogether(const LoadedTask& task, const Asking& asking) {
  // As many as the products of few tokens are made for (model/kernels/product.h).
  constexpr size_t kTexts = 8;
  const bool greedy =
      task.spec.has_free() && NeedsText(task.spec) && task.spec.free().num_beams() <= 1;
  return greedy && asking.classes.empty() && asking.step_together != nullptr ? kTexts : 1;
}

absl::StatusOr<std::vector<ExampleAnswer>> AnswerExamples(const LoadedTask& task,
                                                          std::span<const int64_t> examples,
                                                          const Asking& asking) {
  std::vector<ExampleAnswer> answers;
  std::vector<Writing> texts;
  for (const int64_t example : examples) {
    const absl::Status status =
        Answer(task, example, asking, examples.size() > 1, &answers, &texts);
    if (!status.ok()) return Located(task, example, status);
  }
  RETURN_IF_ERROR(WriteAll(task, asking, std::move(texts), &answers));
  return answers;
}

}  // namespace braid
