// Figures of predicted labels that are functions of the confusion matrix.
#ifndef BRAID_EVALUATION_TASKS_CHOICE_FIGURES_H_
#define BRAID_EVALUATION_TASKS_CHOICE_FIGURES_H_

#include <span>

#include "evaluation/tasks/text_figures.h"

namespace braid {

struct Prediction {
  int right = 0;
  int predicted = 0;
};

// Returns the correlation coefficient of Gorodkin 2004, which for two labels is that of Matthews;
// 0 where it is undefined, because all right or all predicted labels are equal.
SummedFigure MatthewsFigure(std::span<const Prediction> predictions);

// Returns the mean F1 of the labels that are right or predicted somewhere.
SummedFigure MacroF1Figure(std::span<const Prediction> predictions);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_CHOICE_FIGURES_H_
