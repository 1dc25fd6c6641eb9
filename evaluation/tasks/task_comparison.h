// Compares the answers of two models to the same examples of a task.
#ifndef BRAID_EVALUATION_TASKS_TASK_COMPARISON_H_
#define BRAID_EVALUATION_TASKS_TASK_COMPARISON_H_

#include <span>
#include <vector>

#include "braid/v1/evaluation.pb.h"
#include "evaluation/tasks/example_answer.h"
#include "evaluation/tasks/task_examples.h"

namespace braid {

// Returns a comparison for each figure of the task, without the names of the models and the
// routing. The interval draws examples, the answers of both models to one together. Requires
// answers to the same examples in the same order.
std::vector<v1::TaskComparison> CompareAnswers(const LoadedTask& task,
                                               std::span<const ExampleAnswer> baseline,
                                               std::span<const ExampleAnswer> model);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_COMPARISON_H_
