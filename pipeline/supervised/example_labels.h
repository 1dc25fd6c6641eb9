// Labels that a model predicts for an example: classes or numbers.
#ifndef BRAID_PIPELINE_SUPERVISED_EXAMPLE_LABELS_H_
#define BRAID_PIPELINE_SUPERVISED_EXAMPLE_LABELS_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/supervised/example_encoder.h"

namespace braid {

// What the labels of examples are.
struct ExampleLabels {
  // Numbers, instead of classes.
  bool regression = false;
  // The classes in the order of their numbers.
  std::vector<std::string> classes;
};

// Returns `labels`, with the labels of the training examples as classes, sorted (numbers first, in
// their order), if it has none and is not a regression. `places` names the examples in errors.
// INVALID_ARGUMENT for the first example whose label is not a number or not a known class, and for
// one class only or too many.
absl::StatusOr<ExampleLabels> ResolveLabels(ExampleLabels labels,
                                            std::span<const EncodedExample> examples,
                                            std::span<const std::string> places);

// Returns an error that names the first example whose label is not one of `labels`; `known` says
// where they come from.
absl::Status CheckExampleLabels(const ExampleLabels& labels, const std::string& known,
                                std::span<const EncodedExample> examples,
                                std::span<const std::string> places);

// Returns a number for the label of each example: that of its class, or its own. Requires labels
// that CheckExampleLabels accepted.
std::vector<float> LabelNumbers(const ExampleLabels& labels,
                                std::span<const EncodedExample> examples);

}  // namespace braid

#endif  // BRAID_PIPELINE_SUPERVISED_EXAMPLE_LABELS_H_
