// A language model given by a formula: the probability of every token depends on the whole sequence
// before it, so that a wrong context changes the scores.
#ifndef BRAID_TESTS_EVALUATION_TASKS_FAKE_DECODER_H_
#define BRAID_TESTS_EVALUATION_TASKS_FAKE_DECODER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/config/decoder.h"

namespace braid {

// Returns the logits [vocab_size] of the token after `sequence`: a hash of it.
std::vector<float> FakeLogits(std::span<const int32_t> sequence, int vocab_size);

// Returns the sum of ln p of `continuation` after `context`, token by token, in double precision.
double SlowScore(std::vector<int32_t> context, std::span<const int32_t> continuation,
                 int vocab_size);

class FakeDecoder final : public Decoder {
 public:
  FakeDecoder(int vocab_size, int64_t context_length)
      : vocab_size_(vocab_size), context_length_(context_length) {}

  absl::StatusOr<std::vector<float>> Prefill(std::span<const int32_t> prompt) override;
  absl::StatusOr<std::vector<float>> Step(int32_t token) override;
  absl::StatusOr<std::vector<std::vector<float>>> ScoreContinuations(
      std::span<const std::vector<int32_t>> continuations) override;
  absl::StatusOr<std::unique_ptr<Decoder>> Fork() const override {
    return std::make_unique<FakeDecoder>(*this);
  }
  std::vector<ExpertMixture> Mixtures() const override { return {}; }

  // Sets the tokens that it generates next, followed by EOS, in place of its formula.
  void Say(const std::vector<int32_t>& tokens) { script_ = tokens; }
  // Makes all later scores NaN.
  void SayNaN() { nan_ = true; }
  // Appends to `reused`, for every Prefill, how many leading tokens the decoder had already.
  void RecordReused(std::vector<int64_t>* reused) { reused_ = reused; }
  int64_t prefills() const { return prefills_; }

 private:
  std::vector<float> Next() const;

  const int vocab_size_;
  const int64_t context_length_;
  std::vector<int32_t> sequence_;
  std::vector<int32_t> script_;
  size_t said_ = 0;
  int64_t prefills_ = 0;
  bool nan_ = false;
  std::vector<int64_t>* reused_ = nullptr;
};

}  // namespace braid

#endif  // BRAID_TESTS_EVALUATION_TASKS_FAKE_DECODER_H_
