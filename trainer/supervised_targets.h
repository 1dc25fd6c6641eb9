// The targets of a supervised dataset: which tokens of an instance count in the loss, and which
// tokens its examples see.
#ifndef BRAID_TRAINER_SUPERVISED_TARGETS_H_
#define BRAID_TRAINER_SUPERVISED_TARGETS_H_

#include <cstdint>
#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "formats/supervised_spans.h"
#include "trainer/data_loader.h"

namespace braid {

class SupervisedTargets {
 public:
  // Reads DATASET_DIR/spans.npy for `num_instances` instances. DataLoss for an instance without a
  // target; InvalidArgument, with `alone`, for one with several examples, which some routers
  // would mix (RoutesOnOtherTokens). Other errors are those of ReadSpans.
  static absl::StatusOr<SupervisedTargets> Open(const std::filesystem::path& dataset_dir,
                                                int64_t num_instances, bool alone);

  // Makes sequence `sequence` of `batch`, which holds `instance`, supervised: ignores the targets
  // outside of the answers, and sets first_visible of the sequence so that every example sees
  // itself only.
  void Apply(int64_t instance, int64_t sequence, Batch* batch) const;

 private:
  std::vector<SupervisedSpan> spans_;
  std::vector<size_t> first_;  // index of the first span of each instance, and their number
};

}  // namespace braid

#endif  // BRAID_TRAINER_SUPERVISED_TARGETS_H_
