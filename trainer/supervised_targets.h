// The targets of a supervised dataset: which tokens of an instance count in the loss, and which
// tokens its examples see.
#ifndef BRAID_TRAINER_SUPERVISED_TARGETS_H_
#define BRAID_TRAINER_SUPERVISED_TARGETS_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "formats/supervised_spans.h"
#include "trainer/data_loader.h"

namespace braid {

class SupervisedTargets {
 public:
  // Reads the spans of the instances of `loader`. DataLoss for an instance without a target;
  // InvalidArgument, with `alone`, for one with several examples, which some routers would mix
  // (RoutesOnOtherTokens). Reads the labels too for a model with a label head. Other errors are
  // those of ReadSpans and ReadLabels.
  static absl::StatusOr<SupervisedTargets> Open(const std::filesystem::path& spans_file,
                                                const DataLoader& loader, bool alone,
                                                const v1::ModelConfig& model = {});

  // Makes sequence `sequence` of `batch`, which holds `instance`, supervised: ignores the targets
  // outside of the answers, and sets first_visible of the sequence so that every example sees
  // itself only, and its length without padding. A label is the target of the last token of its
  // prompt.
  void Apply(int64_t instance, int64_t sequence, Batch* batch) const;

  // Returns the answers of an instance, in their order.
  std::span<const SupervisedSpan> AnswersOf(int64_t instance) const;

 private:
  void ApplyLabels(std::span<const SupervisedSpan> spans, int64_t begin, Batch* batch) const;

  std::vector<SupervisedSpan> spans_;
  std::vector<float> labels_;  // one for each span, or none
  bool regression_ = false;
  std::vector<size_t> first_;  // index of the first span of each instance, and their number
};

}  // namespace braid

#endif  // BRAID_TRAINER_SUPERVISED_TARGETS_H_
