// The figures of a task from its answers: proto TaskFigure.
#ifndef BRAID_EVALUATION_TASKS_TASK_FIGURES_H_
#define BRAID_EVALUATION_TASKS_TASK_FIGURES_H_

#include <span>
#include <string>
#include <vector>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/task.pb.h"
#include "evaluation/tasks/example_answer.h"
#include "evaluation/tasks/task_examples.h"

namespace braid {

// The choice with the highest figure, of equal ones the first. `figure` is one of choices; F1
// goes by s(c), as ACC does.
int PredictedChoice(v1::TaskFigure figure, const ExampleAnswer& answer,
                    std::span<const std::string> continuations);

// In the order of the specification, with intervals by a bootstrap over the answers.
std::vector<v1::TaskMetric> TaskFigures(const LoadedTask& task,
                                        std::span<const ExampleAnswer> answers);

// What guessing gives for the main figure: the mean of 1 / choices, 0 for free answers; for F1
// likewise the share that a guess gets right.
double ChanceLevel(const LoadedTask& task, std::span<const ExampleAnswer> answers);

// The same by the usual number of choices, before any file is read; 0 when that is not known.
double UsualChance(const v1::TaskSpec& spec);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_FIGURES_H_
