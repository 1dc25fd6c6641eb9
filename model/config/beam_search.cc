#include "model/config/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

bool OneOf(int32_t token, std::span<const int32_t> tokens) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// Returns ln of the sum of exp(logits). DataLoss when a logit is NaN or no maximum is finite.
absl::StatusOr<double> LogSum(std::span<const float> logits) {
  const bool numbers = std::ranges::none_of(logits, [](float logit) { return std::isnan(logit); });
  const double top = logits.empty() ? 0 : *std::ranges::max_element(logits);
  if (logits.empty() || !numbers || !std::isfinite(top)) {
    return absl::DataLossError(
        "the model's logits are not finite: its weights are damaged, or its training diverged");
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

}  // namespace

void BanRepeatedNgrams(std::span<const int32_t> sequence, int n, std::span<const int32_t> exempt,
                       std::span<float> logits) {
  const auto before = static_cast<size_t>(std::max(n - 1, 0));
  if (n < 1 || sequence.size() <= before) return;
  const std::span<const int32_t> last = sequence.last(before);
  for (size_t i = 0; i + before < sequence.size(); ++i) {
    const int32_t next = sequence[i + before];
    if (!std::ranges::equal(sequence.subspan(i, before), last) || OneOf(next, exempt)) continue;
    if (next >= 0 && static_cast<size_t>(next) < logits.size()) {
      logits[static_cast<size_t>(next)] = kBanned;
    }
  }
}

BeamSearch::BeamSearch(BeamOptions options, const Decoder& prefilled,
                       std::span<const int32_t> prompt, std::vector<float> logits)
    : options_(std::move(options)),
      prefilled_(prefilled),
      prompt_(prompt.begin(), prompt.end()),
      width_(static_cast<size_t>(options_.num_beams)) {
  BRAID_CHECK(options_.num_beams >= 1 && options_.max_tokens >= 1)
      << options_.num_beams << " " << options_.max_tokens;
  beams_.push_back({nullptr, {}, 0, std::move(logits)});
}

absl::Status BeamSearch::Advance() {
  BRAID_CHECK(!done_) << "Advance after the end";
  ASSIGN_OR_RETURN(const std::vector<Candidate> candidates, Candidates());
  if (candidates.empty()) {  // every token is banned
    for (Beam& beam : beams_) Finish({std::move(beam.tokens), beam.log_prob, 0}, length_);
    done_ = true;
    return absl::OkStatus();
  }
  ++length_;
  std::vector<Candidate> kept;
  for (const Candidate& candidate : candidates) {
    BeamText text = {beams_[candidate.beam].tokens, candidate.log_prob, 0};
    const bool ended = OneOf(candidate.token, options_.ends);
    if (!ended) text.tokens.push_back(candidate.token);
    const bool complete = ended || length_ >= options_.max_tokens ||
                          (options_.is_complete && options_.is_complete(text.tokens));
    if (complete) {
      Finish(std::move(text), length_);
    } else {
      kept.push_back(candidate);
    }
  }
  width_ -= candidates.size() - kept.size();
  done_ = kept.empty();
  return done_ ? absl::OkStatus() : Extend(std::move(kept));
}

// Returns the `width_` most likely extensions, best first.
absl::StatusOr<std::vector<BeamSearch::Candidate>> BeamSearch::Candidates() const {
  std::vector<Candidate> all;
  for (size_t i = 0; i < beams_.size(); ++i) {
    const Beam& beam = beams_[i];
    std::vector<float> logits = beam.logits;
    if (options_.vocab_size > 0) logits.resize(static_cast<size_t>(options_.vocab_size));
    ASSIGN_OR_RETURN(const double log_sum, LogSum(logits));
    std::vector<int32_t> sequence = prompt_;
    sequence.insert(sequence.end(), beam.tokens.begin(), beam.tokens.end());
    BanRepeatedNgrams(sequence, options_.no_repeat_ngram, options_.ends, logits);
    for (size_t token = 0; token < logits.size(); ++token) {
      if (logits[token] == kBanned) continue;
      all.push_back({beam.log_prob + logits[token] - log_sum, i, static_cast<int32_t>(token)});
    }
  }
  const auto before = [](const Candidate& a, const Candidate& b) {
    if (a.log_prob != b.log_prob) return a.log_prob > b.log_prob;
    return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
  };
  const size_t count = std::min(width_, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                    before);
  all.resize(count);
  return all;
}

// Makes the candidates the beams: the last candidate of a beam continues its decoder, the others
// continue copies.
absl::Status BeamSearch::Extend(std::vector<Candidate> kept) {
  std::vector<Beam> next;
  for (size_t i = 0; i < kept.size(); ++i) {
    Beam& from = beams_[kept[i].beam];
    const bool last = std::none_of(kept.begin() + static_cast<std::ptrdiff_t>(i) + 1, kept.end(),
                                   [&](const auto& one) { return one.beam == kept[i].beam; });
    Beam beam = {nullptr, from.tokens, kept[i].log_prob, {}};
    beam.tokens.push_back(kept[i].token);
    if (last && from.decoder != nullptr) {
      beam.decoder = std::move(from.decoder);
    } else {
      ASSIGN_OR_RETURN(beam.decoder, (from.decoder ? *from.decoder : prefilled_).Fork());
    }
    next.push_back(std::move(beam));
  }
  beams_ = std::move(next);
  return StepAll();
}

absl::Status BeamSearch::StepAll() {
  std::vector<Decoder*> decoders;
  std::vector<int32_t> tokens;
  for (Beam& beam : beams_) {
    decoders.push_back(beam.decoder.get());
    tokens.push_back(beam.tokens.back());
  }
  if (options_.step) {
    ASSIGN_OR_RETURN(std::vector<std::vector<float>> logits, options_.step(decoders, tokens));
    for (size_t i = 0; i < beams_.size(); ++i) beams_[i].logits = std::move(logits[i]);
    return absl::OkStatus();
  }
  for (size_t i = 0; i < beams_.size(); ++i) {
    ASSIGN_OR_RETURN(beams_[i].logits, decoders[i]->Step(tokens[i]));
  }
  return absl::OkStatus();
}

void BeamSearch::Finish(BeamText text, int64_t length) {
  const auto tokens = static_cast<double>(std::max<int64_t>(length, 1));
  text.score = text.log_prob / std::pow(tokens, options_.length_penalty);
  if (!best_.has_value() || text.score > best_->score) best_ = std::move(text);
}

}  // namespace braid
