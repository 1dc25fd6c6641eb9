// Figures of generated texts against several references: BLEU, NIST, METEOR, ROUGE-L and CIDEr.
//
// Words are those of the script mteval-v13a ("13a" of sacreBLEU) in lower case; METEOR, ROUGE-L and
// CIDEr leave out punctuation, as the COCO caption scripts do.
#ifndef BRAID_EVALUATION_TASKS_TEXT_FIGURES_H_
#define BRAID_EVALUATION_TASKS_TEXT_FIGURES_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "braid/v1/task.pb.h"

namespace braid {

// A figure that is a function of a sum over units, such as examples: what a bootstrap draws.
struct SummedFigure {
  std::vector<std::vector<double>> units;  // all of one size
  std::function<double(std::span<const double>)> value;

  // Returns the value with each unit counted draws[i] times; once without `draws`.
  double Value(std::span<const int32_t> draws = {}) const;
};

// Returns the mean of a number of each unit.
SummedFigure MeanFigure(std::span<const double> scores);

struct TextPair {
  std::string candidate;
  std::vector<std::string> references;  // at least one
};

// Returns whether TextFigure computes the figure.
bool IsTextFigure(v1::TaskFigure figure);

// Returns a figure of texts:
//   BLEU     papineni et al. 2002, orders 1 to 4, closest reference length, no smoothing: 0 where
//            an order has no match
//   NIST     Doddington 2002, orders 1 to 5, information weights from all references
//   METEOR   Lavie and Agarwal 2007: words, then Porter stems; alpha .9, beta 3, gamma .5; the best
//            reference; the mean over pairs
//   ROUGE_L  Lin 2004 with beta 1.2, best precision and best recall; the mean over pairs
//   CIDER    CIDEr-D of Vedantam et al. 2015, sigma 6; document frequencies are those of the
//            references of all pairs; the mean over pairs
// Weights from all pairs do not change in a bootstrap. Requires IsTextFigure(figure).
SummedFigure TextFigure(v1::TaskFigure figure, std::span<const TextPair> pairs);

// Returns the words of a text as the figures count them, without punctuation if `plain`.
std::vector<std::string> FigureWords(std::string_view text, bool plain);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TEXT_FIGURES_H_
