// Several texts made by one model, a token of each in turn.
#ifndef BRAID_INFERENCE_GENERATION_TURNS_H_
#define BRAID_INFERENCE_GENERATION_TURNS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "braid/v1/serving.pb.h"
#include "inference/text_generation.h"

namespace braid {

// A round gives each text that has begun one token, in the order in which they began, and then
// reads at most one prompt of those that wait for their first turn. So a text waits between two
// tokens of its own for a token of every other and for one prompt, however many arrive. One
// caller at a time.
//
// `together`: all texts that have begun get their tokens in one turn, which is quicker, and the
// last digits of a text's logits depend on its company (TextGeneration::AdvanceTogether).
class GenerationTurns {
 public:
  using Emit = std::function<void(const v1::ServingReport&)>;

  // Both outlive this.
  GenerationTurns(LanguageModel& model, const Tokenizer& tokenizer, Emit emit,
                  bool together = false)
      : model_(model), tokenizer_(tokenizer), emit_(std::move(emit)), together_(together) {}

  // Starts or gives up a request; what is wrong with one is emitted as its error. Quick: its prompt
  // is looked at when it has its turn.
  void Take(const v1::ServingCommand& command);

  bool idle() const { return begun_.empty() && new_.empty(); }

  // One token of one text, or of all together: the longest that new commands wait. Requires
  // !idle().
  void Turn();

 private:
  struct Text {
    uint64_t id = 0;
    std::unique_ptr<TextGeneration> generation;
  };

  void TurnOfAll();
  Text NextText();
  void Tell(Text text, const absl::StatusOr<v1::GenerateEvent>& event);
  void Fail(uint64_t id, const absl::Status& status);

  LanguageModel& model_;
  const Tokenizer& tokenizer_;
  const Emit emit_;
  const bool together_;
  std::deque<Text> begun_;    // the next turn is the first's
  std::deque<Text> new_;      // whose prompts are not read yet
  size_t left_in_round_ = 0;  // of begun_
};

}  // namespace braid

#endif  // BRAID_INFERENCE_GENERATION_TURNS_H_
