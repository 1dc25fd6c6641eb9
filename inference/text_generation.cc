#include "inference/text_generation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "inference/prompt.h"
#include "inference/sampler.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

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
  return std::unique_ptr<TextGeneration>(new TextGeneration(std::move(request), model, tokenizer));
}

TextGeneration::TextGeneration(v1::GenerateRequest request, LanguageModel& model,
                               const Tokenizer& tokenizer)
    : request_(std::move(request)), model_(model), tokenizer_(tokenizer) {}

absl::StatusOr<v1::GenerateEvent> TextGeneration::Advance() {
  BRAID_CHECK(!done()) << "Advance after the end";
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
    decoders.push_back(text->decoder_.get());
    tokens.push_back(text->newest_);
  }
  std::vector<absl::StatusOr<v1::GenerateEvent>> events;
  if (texts.empty()) return events;
  const auto logits = texts.front()->model_.StepTogether(decoders, tokens);
  const Seconds spent = Clock::now() - start;
  for (size_t i = 0; i < texts.size(); ++i) {
    // Errors in one sequence's arguments leave all sequences unchanged; other errors reset all of
    // them.
    const bool alone = absl::IsOutOfRange(logits.status());
    if (alone) {
      events.push_back(texts[i]->Advance());
    } else if (logits.ok()) {
      events.push_back(texts[i]->Take((*logits)[i], spent));
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
  ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                   FittingPromptTokens(model_.config(), tokenizer_, request_.prompt()));
  text_.emplace(tokenizer_, prompt);
  num_tokens_ = static_cast<int64_t>(prompt.size());
  decoder_ = model_.NewDecoder(ModeOf(request_), request_.active_experts());
  return decoder_->Prefill(prompt);
}

absl::StatusOr<v1::GenerateEvent> TextGeneration::Take(const std::vector<float>& logits,
                                                       Seconds spent) {
  const Clock::time_point start = Clock::now();
  event_.clear_text();
  AddRouting();
  const uint64_t bits = Mix64(request_.seed(), static_cast<uint64_t>(event_.num_tokens()));
  // Embeddings beyond the tokenizer's pieces are padding.
  const auto pieces = std::span(logits).first(static_cast<size_t>(tokenizer_.vocab_size()));
  ASSIGN_OR_RETURN(const int32_t token, SampleToken(pieces, request_.temperature(),
                                                    request_.top_p(), UnitInterval(bits)));
  event_.set_done(token == tokenizer_.eos_id() || Append(token));
  if (event_.done()) event_.mutable_text()->append(text_->Finish());
  working_ += spent + (Clock::now() - start);
  event_.set_tokens_per_second(event_.num_tokens() / std::max(working_.count(), 1e-9));
  return event_;
}

// Appends a token to the event; returns whether it is the last.
bool TextGeneration::Append(int32_t token) {
  const bool full = num_tokens_ >= model_.config().sequence_length();
  ++num_tokens_;
  newest_ = token;
  event_.set_num_tokens(event_.num_tokens() + 1);
  event_.set_text(text_->Add(token));
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
