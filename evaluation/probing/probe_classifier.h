// Classifiers that predict a label from a vector: logistic regression, or one hidden layer of
// sigmoid units.
#ifndef BRAID_EVALUATION_PROBING_PROBE_CLASSIFIER_H_
#define BRAID_EVALUATION_PROBING_PROBE_CLASSIFIER_H_

#include <cstdint>
#include <span>
#include <vector>

namespace braid {

// Vectors of `width` features, row-major [labels.size(), width], with labels from 0.
struct LabeledVectors {
  std::span<const float> vectors;
  std::span<const int32_t> labels;
};

struct ProbeClassifierOptions {
  int num_classes = 2;
  int64_t width = 0;
  // 0 is logistic regression.
  int hidden_units = 0;
  uint64_t seed = 0;
};

// Trains a classifier and returns the label that it predicts for each row of `test` [n, width].
//
// Features are standardized by their mean and deviation in `training`; constant ones are left out.
// The loss is the mean cross-entropy plus |W|^2 / (2 n) for n training rows, the penalty of
// scikit-learn's default C = 1, without that of biases. Adam takes batches of 64 for 40 epochs, at
// least 2,000 steps, with a rate that falls linearly from .005 to 0. Single-threaded, so that the
// result is a pure function of the arguments. Requires at least one training row and class.
std::vector<int32_t> PredictLabels(const LabeledVectors& training, std::span<const float> test,
                                   const ProbeClassifierOptions& options);

}  // namespace braid

#endif  // BRAID_EVALUATION_PROBING_PROBE_CLASSIFIER_H_
