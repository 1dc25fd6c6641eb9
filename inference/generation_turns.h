// Schedules several text generations on one model, in rounds.
#ifndef BRAID_INFERENCE_GENERATION_TURNS_H_
#define BRAID_INFERENCE_GENERATION_TURNS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "braid/v1/serving.pb.h"
#include "inference/loaded_model.h"
#include "inference/text_generation.h"

namespace braid {

// A round generates one token for each text in progress, in the order in which they began, and then
// reads at most one waiting prompt. So between two of its tokens, a text waits for one token of
// every other text and for one prompt, however many requests arrive. Not thread-safe.
//
// With `together`, all texts in progress get their tokens in one batched turn. This is faster, but
// the last digits of a text's logits depend on the other texts (TextGeneration::AdvanceTogether).
class GenerationTurns {
 public:
  using Emit = std::function<void(const v1::ServingReport&)>;

  // `model` must outlive this.
  GenerationTurns(const LoadedModel& model, Emit emit, bool together = false)
      : model_(model), emit_(std::move(emit)), together_(together) {}

  // Starts or cancels a request; errors are emitted as its result: those of TextGeneration, and
  // CheckNewest for a strict request. Returns quickly: the prompt is read in the request's first
  // turn. The first event of a request names the source of the weights.
  void Take(const v1::ServingCommand& command);

  bool idle() const { return begun_.empty() && new_.empty(); }

  // Generates one token for one text, or for all together: the longest time that new commands wait.
  // Requires !idle().
  void Turn();

 private:
  struct Text {
    uint64_t id = 0;
    std::unique_ptr<TextGeneration> generation;
    bool reported = false;  // an event was emitted
  };

  absl::StatusOr<std::unique_ptr<TextGeneration>> Start(const v1::GenerateRequest& request);
  void TurnOfAll();
  Text NextText();
  void Report(Text text, const absl::StatusOr<v1::GenerateEvent>& event);
  void Fail(uint64_t id, const absl::Status& status);

  const LoadedModel& model_;
  const Emit emit_;
  const bool together_;
  std::deque<Text> begun_;    // in progress; the first has the next turn
  std::deque<Text> new_;      // waiting for their prompt to be read
  size_t left_in_round_ = 0;  // texts of begun_ that have not had a turn in this round
};

}  // namespace braid

#endif  // BRAID_INFERENCE_GENERATION_TURNS_H_
