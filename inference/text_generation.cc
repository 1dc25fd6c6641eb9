#include "inference/text_generation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "inference/prompt.h"
#include "inference/sampler.h"
#include "model/config/model_config.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status CheckSearch(const v1::GenerateRequest& request) {
  if (request.num_beams() < 1 || request.num_beams() > kMaxBeams) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_beams: got ", request.num_beams(), ", expected 1 to ", kMaxBeams));
  }
  if (!(request.length_penalty() >= 0 && request.length_penalty() <= 10)) {
    return absl::InvalidArgumentError(
        absl::StrCat("length_penalty: got ", request.length_penalty(), ", expected 0 to 10"));
  }
  if (request.no_repeat_ngram() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no_repeat_ngram: got ", request.no_repeat_ngram(), ", expected at least 0"));
  }
  if (request.num_beams() == 1) return absl::OkStatus();
  if (request.temperature() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_beams: got ", request.num_beams(), " with temperature ",
                     request.temperature(), ", expected temperature 0: a search does not sample"));
  }
  if (!request.want_routing()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("want_routing: got num_beams ", request.num_beams(),
                   " too, expected 1: every beam has router weights of its own"));
}

absl::StatusOr<v1::GenerateRequest> Resolve(v1::GenerateRequest request) {
  FillStatedDefaults(&request);
  if (request.max_tokens() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens: got ", request.max_tokens(), ", expected at least 1"));
  }
  if (!(request.temperature() >= 0 && std::isfinite(request.temperature()))) {
    return absl::InvalidArgumentError(absl::StrCat("temperature: got ", request.temperature(),
                                                   ", expected a finite number of at least 0"));
  }
  if (!(request.top_p() > 0 && request.top_p() <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_p: got ", request.top_p(), ", expected more than 0 and at most 1"));
  }
  if (request.has_active_experts() && request.active_experts() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("active_experts: got ", request.active_experts(),
                     ", expected at least 1; leave it unset for the model's own number"));
  }
  RETURN_IF_ERROR(CheckSearch(request));
  return request;
}

MergeMode ModeOf(const v1::GenerateRequest& request) {
  return request.routing() == v1::SEGMENT_ROUTING ? MergeMode::kSegment : MergeMode::kPrompt;
}

bool SameMixtures(const std::vector<ExpertMixture>& a, const std::vector<ExpertMixture>& b) {
  return std::ranges::equal(a, b, {}, &ExpertMixture::gate_up, &ExpertMixture::gate_up);
}

}  // namespace

absl::Status CheckVocabulary(const Tokenizer& tokenizer, const v1::ModelConfig& model) {
  if (tokenizer.vocab_size() <= model.vocab_size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the checkpoint's tokenizer has ", tokenizer.vocab_size(),
                                          " pieces, expected at most the model's ",
                                          model.vocab_size()));
}

absl::StatusOr<std::unique_ptr<TextGeneration>> TextGeneration::Create(
    const v1::GenerateRequest& asked, LanguageModel& model, const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(v1::GenerateRequest request, Resolve(asked));
  RETURN_IF_ERROR(CheckChat(request, model.config()));
  return std::unique_ptr<TextGeneration>(new TextGeneration(std::move(request), model, tokenizer));
}

TextGeneration::TextGeneration(v1::GenerateRequest request, LanguageModel& model,
                               const Tokenizer& tokenizer)
    : request_(std::move(request)), model_(model), tokenizer_(tokenizer) {}

absl::StatusOr<v1::GenerateEvent> TextGeneration::Advance() {
  BRAID_CHECK(!done()) << "Advance after the end";
  if (request_.num_beams() > 1) return AdvanceBeams();
  const Clock::time_point start = Clock::now();
  ASSIGN_OR_RETURN(const std::vector<float> logits, NextLogits());
  return Take(logits, Clock::now() - start);
}

std::vector<absl::StatusOr<v1::GenerateEvent>> TextGeneration::AdvanceTogether(
    std::span<TextGeneration* const> texts) {
  const Clock::time_point start = Clock::now();
  std::vector<Decoder*> decoders;
  std::vector<int32_t> tokens;
  for (const TextGeneration* text : texts) {
    BRAID_CHECK(text->begun() && !text->done()) << "neither begun nor at its end";
    if (text->search_ != nullptr) continue;
    decoders.push_back(text->decoder_.get());
    tokens.push_back(text->newest_);
  }
  std::vector<absl::StatusOr<v1::GenerateEvent>> events;
  if (texts.empty()) return events;
  const auto logits = texts.front()->model_.StepTogether(decoders, tokens);
  const Seconds spent = Clock::now() - start;
  size_t next = 0;
  for (TextGeneration* text : texts) {
    // The beams of a text are a batch of their own. Errors in one sequence's arguments leave all
    // sequences unchanged; other errors reset all of them.
    const bool alone = text->search_ != nullptr || absl::IsOutOfRange(logits.status());
    if (alone) {
      events.push_back(text->Advance());
    } else if (logits.ok()) {
      events.push_back(text->Take((*logits)[next++], spent));
    } else {
      events.push_back(logits.status());
    }
  }
  return events;
}

TextGeneration::Logits TextGeneration::NextLogits() {
  return begun() ? decoder_->Step(newest_) : ReadPrompt();
}

TextGeneration::Logits TextGeneration::ReadPrompt() {
  ASSIGN_OR_RETURN(GenerationPrompt prompt, PromptOf(request_, model_.config(), tokenizer_));
  sequence_ = std::move(prompt.tokens);
  end_of_turn_ = prompt.end_of_turn;
  text_.emplace(tokenizer_, sequence_);
  num_tokens_ = static_cast<int64_t>(sequence_.size());
  std::optional<uint64_t> routing_seed;
  if (request_.has_routing_seed()) {
    routing_seed = request_.routing_seed();
    RETURN_IF_ERROR(CheckRoutingSeed(model_.config(), *routing_seed));
  }
  decoder_ = model_.NewDecoder(ModeOf(request_), request_.active_experts(), routing_seed);
  return decoder_->Prefill(sequence_);
}

std::vector<int32_t> TextGeneration::Ends() const {
  std::vector<int32_t> ends = {tokenizer_.eos_id()};
  if (end_of_turn_.has_value()) ends.push_back(*end_of_turn_);
  return ends;
}

absl::Status TextGeneration::BeginBeams() {
  ASSIGN_OR_RETURN(std::vector<float> logits, ReadPrompt());
  const int64_t room = model_.config().sequence_length() - num_tokens_ + 1;
  BeamOptions options = {.num_beams = request_.num_beams(),
                         .length_penalty = request_.length_penalty(),
                         .no_repeat_ngram = request_.no_repeat_ngram(),
                         .ends = Ends(),
                         .max_tokens = std::min<int64_t>(request_.max_tokens(), room),
                         .vocab_size = tokenizer_.vocab_size()};
  options.step = [this](std::span<Decoder* const> decoders, std::span<const int32_t> tokens) {
    return model_.StepTogether(decoders, tokens);
  };
  search_ =
      std::make_unique<BeamSearch>(std::move(options), *decoder_, sequence_, std::move(logits));
  return absl::OkStatus();
}

// Extends every beam by a token; the last event has the text of the best one.
absl::StatusOr<v1::GenerateEvent> TextGeneration::AdvanceBeams() {
  const Clock::time_point start = Clock::now();
  if (search_ == nullptr) RETURN_IF_ERROR(BeginBeams());
  RETURN_IF_ERROR(search_->Advance());
  event_.set_num_tokens(static_cast<int32_t>(search_->length()));
  if (search_->done()) {
    const std::vector<int32_t>& tokens = search_->best().tokens;
    std::string text;
    for (const int32_t token : tokens) text += text_->Add(token);
    AppendText(text + text_->Finish());
    event_.set_num_tokens(static_cast<int32_t>(tokens.size()));
    event_.set_done(true);
  }
  working_ += Clock::now() - start;
  event_.set_tokens_per_second(event_.num_tokens() / std::max(working_.count(), 1e-9));
  return event_;
}

void TextGeneration::AppendText(std::string text) {
  if (request_.chat() && !has_text_) {
    text = std::string(absl::StripLeadingAsciiWhitespace(text));
  }
  has_text_ |= !text.empty();
  event_.mutable_text()->append(text);
}

absl::StatusOr<v1::GenerateEvent> TextGeneration::Take(const std::vector<float>& logits,
                                                       Seconds spent) {
  const Clock::time_point start = Clock::now();
  event_.clear_text();
  AddRouting();
  const uint64_t bits = Mix64(request_.seed(), static_cast<uint64_t>(event_.num_tokens()));
  // Embeddings beyond the tokenizer's pieces are padding.
  std::vector<float> pieces(logits.begin(), logits.begin() + tokenizer_.vocab_size());
  const std::vector<int32_t> ends = Ends();
  BanRepeatedNgrams(sequence_, request_.no_repeat_ngram(), ends, pieces);
  ASSIGN_OR_RETURN(const int32_t token, SampleToken(pieces, request_.temperature(),
                                                    request_.top_p(), UnitInterval(bits)));
  event_.set_done(std::ranges::find(ends, token) != ends.end() || Append(token));
  if (event_.done()) AppendText(text_->Finish());
  working_ += spent + (Clock::now() - start);
  event_.set_tokens_per_second(event_.num_tokens() / std::max(working_.count(), 1e-9));
  return event_;
}

// Appends a token to the event; returns whether it is the last.
bool TextGeneration::Append(int32_t token) {
  const bool full = num_tokens_ >= model_.config().sequence_length();
  ++num_tokens_;
  newest_ = token;
  sequence_.push_back(token);
  event_.set_num_tokens(event_.num_tokens() + 1);
  AppendText(text_->Add(token));
  return full || event_.num_tokens() >= request_.max_tokens();
}

void TextGeneration::AddRouting() {
  event_.clear_routing();
  if (!request_.want_routing()) return;
  std::vector<ExpertMixture> mixtures = decoder_->Mixtures();
  if (SameMixtures(mixtures, mixtures_)) return;
  mixtures_ = std::move(mixtures);
  for (size_t layer = 0; layer < mixtures_.size(); ++layer) {
    const std::vector<float>& weights = mixtures_[layer].gate_up;
    if (weights.empty()) continue;
    v1::RoutingMixture* const mixture = event_.add_routing();
    mixture->set_layer(static_cast<int32_t>(layer));
    mixture->set_before_token(event_.num_tokens() + 1);
    mixture->mutable_weights()->Assign(weights.begin(), weights.end());
  }
}

}  // namespace braid
