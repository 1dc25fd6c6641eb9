#include "evaluation/tasks/answer_loss.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace braid {
namespace {

// Returns ln of the sum of exp(s(c)), without overflow.
double LogSumOfScores(std::span<const ChoiceScore> choices) {
  const double highest = std::ranges::max(choices, {}, &ChoiceScore::log_prob).log_prob;
  double sum = 0;
  for (const ChoiceScore& choice : choices) sum += std::exp(choice.log_prob - highest);
  return highest + std::log(sum);
}

}  // namespace

bool NeedsReference(const v1::TaskSpec& spec, bool want_examples) {
  return spec.has_free() && (want_examples || std::ranges::find(spec.figures(), v1::ANSWER_LOSS) !=
                                                  spec.figures().end());
}

bool NeedsText(const v1::TaskSpec& spec) {
  return spec.has_free() && std::ranges::any_of(spec.figures(), [](const int figure) {
           return figure != v1::ANSWER_LOSS;
         });
}

double AnswerLoss(const LoadedTask& task, const ExampleAnswer& answer) {
  if (task.spec.has_free()) {
    BRAID_CHECK(answer.reference.has_value()) << "example " << answer.example;
    return -answer.reference->log_prob;
  }
  const auto gold = static_cast<size_t>(task.examples[static_cast<size_t>(answer.example)].gold);
  return LogSumOfScores(answer.choices) - answer.choices[gold].log_prob;
}

}  // namespace braid
