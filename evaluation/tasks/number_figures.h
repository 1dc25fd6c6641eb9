// Figures of predicted numbers.
#ifndef BRAID_EVALUATION_TASKS_NUMBER_FIGURES_H_
#define BRAID_EVALUATION_TASKS_NUMBER_FIGURES_H_

#include <span>

#include "evaluation/tasks/text_figures.h"

namespace braid {

struct NumberPair {
  double right = 0;
  double predicted = 0;
};

// Returns the correlation coefficient of Pearson; 0 where it is undefined, because all right or all
// predicted numbers are equal. Requires finite numbers.
SummedFigure PearsonFigure(std::span<const NumberPair> pairs);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_NUMBER_FIGURES_H_
