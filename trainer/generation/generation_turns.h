// Several texts made by one model, a token of each in turn.
#ifndef BRAID_TRAINER_GENERATION_GENERATION_TURNS_H_
#define BRAID_TRAINER_GENERATION_GENERATION_TURNS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "braid/v1/serving.pb.h"
#include "trainer/generation/text_generation.h"

namespace braid {

// A round gives each text that has begun one token, in the order in which they began, and then
// reads at most one prompt of those that wait for their first turn. So a text waits between two
// tokens of its own for a token of every other and for one prompt, however many arrive. One
// caller at a time.
class GenerationTurns {
 public:
  using Emit = std::function<void(const v1::ServingReport&)>;

  // Both outlive this.
  GenerationTurns(LanguageModel& model, const Tokenizer& tokenizer, Emit emit)
      : model_(model), tokenizer_(tokenizer), emit_(std::move(emit)) {}

  // Starts or gives up a request; what is wrong with one is emitted as its error.
  void Take(const v1::ServingCommand& command);

  bool idle() const { return begun_.empty() && new_.empty(); }

  // One token of one text: the longest that new commands wait. Requires !idle().
  void Turn();

 private:
  struct Text {
    uint64_t id = 0;
    std::unique_ptr<TextGeneration> generation;
  };

  Text NextText();
  void Fail(uint64_t id, const absl::Status& status);

  LanguageModel& model_;
  const Tokenizer& tokenizer_;
  const Emit emit_;
  std::deque<Text> begun_;    // the next turn is the first's
  std::deque<Text> new_;      // whose prompts are not read yet
  size_t left_in_round_ = 0;  // of begun_
};

}  // namespace braid

#endif  // BRAID_TRAINER_GENERATION_GENERATION_TURNS_H_
