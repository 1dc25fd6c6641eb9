#include "trainer/generation/text_generation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/check.h"
#include "formats/status_macros.h"
#include "trainer/generation/prompt.h"
#include "trainer/generation/sampler.h"
#include "trainer/splitmix.h"

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kDefaultMaxTokens = 128;

absl::StatusOr<v1::GenerateRequest> Resolve(v1::GenerateRequest request) {
  if (request.max_tokens() == 0) request.set_max_tokens(kDefaultMaxTokens);
  if (request.top_p() == 0) request.set_top_p(1);
  if (request.max_tokens() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens: got ", request.max_tokens(), ", expected at least 1"));
  }
  if (!(request.temperature() >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("temperature: got ", request.temperature(), ", expected at least 0"));
  }
  if (!(request.top_p() > 0 && request.top_p() <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_p: got ", request.top_p(), ", expected more than 0 and at most 1"));
  }
  return request;
}

absl::Status CheckFits(size_t prompt_tokens, const v1::ModelConfig& model) {
  const size_t context = static_cast<size_t>(model.sequence_length());
  if (prompt_tokens <= context) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("prompt: got ", prompt_tokens,
                                                 " tokens, expected at most ", context,
                                                 " (the model's sequence_length)"));
}

MergeMode ModeOf(const v1::GenerateRequest& request) {
  return request.routing() == v1::SEGMENT_ROUTING ? MergeMode::kSegment : MergeMode::kPrompt;
}

bool SameMixtures(const std::vector<ExpertMixture>& a, const std::vector<ExpertMixture>& b) {
  return std::ranges::equal(a, b, {}, &ExpertMixture::gate_up, &ExpertMixture::gate_up);
}

}  // namespace

absl::Status CheckVocabulary(const Tokenizer& tokenizer, const v1::ModelConfig& model) {
  if (tokenizer.vocab_size() == model.vocab_size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the checkpoint's tokenizer has ", tokenizer.vocab_size(),
                                          " pieces, its model ", model.vocab_size()));
}

absl::StatusOr<std::unique_ptr<TextGeneration>> TextGeneration::Create(
    const v1::GenerateRequest& asked, LanguageModel& model, const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(v1::GenerateRequest request, Resolve(asked));
  std::vector<int32_t> prompt = PromptTokens(tokenizer, request.prompt());
  RETURN_IF_ERROR(CheckFits(prompt.size(), model.config()));
  return std::unique_ptr<TextGeneration>(
      new TextGeneration(std::move(request), model, tokenizer, std::move(prompt)));
}

TextGeneration::TextGeneration(v1::GenerateRequest request, LanguageModel& model,
                               const Tokenizer& tokenizer, std::vector<int32_t> prompt)
    : request_(std::move(request)),
      model_(model),
      tokenizer_(tokenizer),
      tokens_(std::move(prompt)),
      text_(tokenizer.Decode(tokens_).size()) {}

absl::StatusOr<v1::GenerateEvent> TextGeneration::Advance() {
  BRAID_CHECK(!done()) << "Advance after the end";
  const Clock::time_point start = Clock::now();
  ASSIGN_OR_RETURN(const std::vector<float> logits, NextLogits());
  event_.clear_text();
  AddRouting();
  const uint64_t bits = Mix64(request_.seed(), static_cast<uint64_t>(event_.num_tokens()));
  const int32_t token =
      SampleToken(logits, request_.temperature(), request_.top_p(), UnitInterval(bits));
  event_.set_done(token == tokenizer_.eos_id() || Append(token));
  if (event_.done()) event_.mutable_text()->append(text_.Finish(tokenizer_.Decode(tokens_)));
  working_ += Clock::now() - start;
  event_.set_tokens_per_second(event_.num_tokens() / std::max(working_.count(), 1e-9));
  return event_;
}

absl::StatusOr<std::vector<float>> TextGeneration::NextLogits() {
  if (decoder_ != nullptr) return decoder_->Step(tokens_.back());
  decoder_ = model_.NewDecoder(ModeOf(request_));
  return decoder_->Prefill(tokens_);
}

// Whether it is the last.
bool TextGeneration::Append(int32_t token) {
  const bool full = static_cast<int64_t>(tokens_.size()) >= model_.config().sequence_length();
  tokens_.push_back(token);
  event_.set_num_tokens(event_.num_tokens() + 1);
  event_.set_text(text_.Next(tokenizer_.Decode(tokens_)));
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
    mixture->mutable_weights()->Assign(weights.begin(), weights.end());
  }
}

}  // namespace braid
