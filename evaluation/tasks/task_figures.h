// Computes the figures of a task (proto TaskFigure) from its answers.
#ifndef BRAID_EVALUATION_TASKS_TASK_FIGURES_H_
#define BRAID_EVALUATION_TASKS_TASK_FIGURES_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/evaluation.pb.h"
#include "braid/v1/task.pb.h"
#include "evaluation/tasks/example_answer.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/text_figures.h"

namespace braid {

// Returns the choice with the highest figure, the first among equals. `figure` is one that compares
// choices; F1 uses s(c), as ACC does.
int PredictedChoice(v1::TaskFigure figure, const ExampleAnswer& answer,
                    std::span<const std::string> continuations);

// Returns a figure as a function of a sum over the answers.
SummedFigure SumOf(const LoadedTask& task, v1::TaskFigure figure,
                   std::span<const ExampleAnswer> answers);

// Returns whether a figure is a share of examples that are right.
bool IsAccuracy(v1::TaskFigure figure);

// Returns the figures in the order of the specification, with intervals by a bootstrap over the
// answers.
std::vector<v1::TaskMetric> TaskFigures(const LoadedTask& task,
                                        std::span<const ExampleAnswer> answers);

// Returns the answer's part of the main figure, whose mean over examples is the figure; nullopt for
// figures of the whole task, such as F1.
std::optional<double> ExampleScore(const LoadedTask& task, const ExampleAnswer& answer);

// Returns the expected main figure of random guessing where that is the accuracy of choices: the
// mean of 1 / choices; otherwise 0, which displays leave out.
double ChanceLevel(const LoadedTask& task, std::span<const ExampleAnswer> answers);

// Returns the same from the usual number of choices, before any file is read; 0 when that is
// unknown.
double UsualChance(const v1::TaskSpec& spec);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_FIGURES_H_
