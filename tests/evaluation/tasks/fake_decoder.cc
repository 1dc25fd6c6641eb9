#include "tests/evaluation/tasks/fake_decoder.h"

#include <algorithm>
#include <cmath>

#include "base/splitmix.h"

namespace braid {
namespace {

double LogSum(const std::vector<float>& logits) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return std::log(sum);
}

}  // namespace

std::vector<float> FakeLogits(std::span<const int32_t> sequence, int vocab_size) {
  uint64_t state = sequence.size();
  for (const int32_t token : sequence) state = Mix64(state, static_cast<uint64_t>(token));
  std::vector<float> logits;
  for (int v = 0; v < vocab_size; ++v) {
    logits.push_back(static_cast<float>(4 * UnitInterval(Mix64(state, static_cast<uint64_t>(v)))));
  }
  return logits;
}

double SlowScore(std::vector<int32_t> context, std::span<const int32_t> continuation,
                 int vocab_size) {
  double sum = 0;
  for (const int32_t token : continuation) {
    const std::vector<float> logits = FakeLogits(context, vocab_size);
    sum += logits[static_cast<size_t>(token)] - LogSum(logits);
    context.push_back(token);
  }
  return sum;
}

absl::StatusOr<std::vector<float>> FakeDecoder::Prefill(std::span<const int32_t> prompt) {
  if (prompt.empty() || static_cast<int64_t>(prompt.size()) > context_length_) {
    return absl::InvalidArgumentError("prompt does not fit");
  }
  ++prefills_;
  said_ = 0;
  if (reused_ != nullptr) {
    const auto differ = std::ranges::mismatch(sequence_, prompt);
    reused_->push_back(differ.in1 - sequence_.begin());
  }
  sequence_.assign(prompt.begin(), prompt.end());
  return Next();
}

absl::StatusOr<std::vector<float>> FakeDecoder::Step(int32_t token) {
  if (static_cast<int64_t>(sequence_.size()) >= context_length_) {
    return absl::OutOfRangeError("full");
  }
  sequence_.push_back(token);
  ++said_;
  return Next();
}

std::vector<float> FakeDecoder::Next() const {
  if (nan_) return std::vector<float>(static_cast<size_t>(vocab_size_), std::nanf(""));
  if (script_.empty()) return FakeLogits(sequence_, vocab_size_);
  std::vector<float> logits(static_cast<size_t>(vocab_size_), 0);
  logits[said_ < script_.size() ? static_cast<size_t>(script_[said_]) : 0] = 1;
  return logits;
}

absl::StatusOr<std::vector<std::vector<float>>> FakeDecoder::ScoreContinuations(
    std::span<const std::vector<int32_t>> continuations) {
  std::vector<std::vector<float>> scores;
  for (const std::vector<int32_t>& continuation : continuations) {
    if (continuation.empty() ||
        static_cast<int64_t>(sequence_.size() + continuation.size()) > context_length_) {
      return absl::InvalidArgumentError("continuation does not fit");
    }
    std::vector<int32_t> sequence = sequence_;
    std::vector<float> one;
    for (const int32_t token : continuation) {
      const std::vector<float> logits = FakeLogits(sequence, vocab_size_);
      one.push_back(static_cast<float>(logits[static_cast<size_t>(token)] - LogSum(logits)));
      if (nan_) one.back() = std::nanf("");
      sequence.push_back(token);
    }
    scores.push_back(one);
  }
  return scores;
}

}  // namespace braid
