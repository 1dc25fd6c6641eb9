// The loss of the right answer of an example (proto TaskFigure ANSWER_LOSS), in nats.
#ifndef BRAID_EVALUATION_TASKS_ANSWER_LOSS_H_
#define BRAID_EVALUATION_TASKS_ANSWER_LOSS_H_

#include "braid/v1/task.pb.h"
#include "evaluation/tasks/example_answer.h"
#include "evaluation/tasks/task_examples.h"

namespace braid {

// Returns whether the answers of a task must have the score of a reference: free answers with the
// figure ANSWER_LOSS, or whose examples are reported.
bool NeedsReference(const v1::TaskSpec& spec, bool want_examples);

// Returns whether the model has to write answers: free answers with a figure other than
// ANSWER_LOSS.
bool NeedsText(const v1::TaskSpec& spec);

// Returns -ln of the right choice's share of exp(s(c)) over all choices; of a free answer the
// negative score of the first reference, which must be there (NeedsReference).
double AnswerLoss(const LoadedTask& task, const ExampleAnswer& answer);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_ANSWER_LOSS_H_
