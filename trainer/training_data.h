// The data of a run: its dataset, or the datasets of its mixture, and the order in which they are
// read.
#ifndef BRAID_TRAINER_TRAINING_DATA_H_
#define BRAID_TRAINER_TRAINING_DATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "runs/mixture_schedule.h"
#include "trainer/data_loader.h"
#include "trainer/gradient_pass.h"
#include "trainer/supervised_targets.h"

namespace braid {

class TrainingData {
 public:
  // Opens the data of a resolved spec. With `verify`, reads every byte first and compares it with
  // the manifests: one rank does this for all. DataLoss names the file that is damaged, and the
  // dataset that is not as it was when the spec was resolved.
  static absl::StatusOr<TrainingData> Open(const v1::RunSpec& resolved, bool verify);

  // Identifies the data in checkpoints.
  const std::string& key() const { return key_; }

  // Returns a rank's part of the batch of a 0-based step. DataLoss as DataLoader::Load.
  absl::StatusOr<RankBatch> Load(int64_t step, int rank, int world_size) const;

  // Returns the losses by dataset of 0-based step `step`; empty without a mixture. `sums` has one
  // element per dataset.
  std::vector<v1::DatasetLoss> LossesOf(int64_t step, const std::vector<DatasetSums>& sums) const;

 private:
  TrainingData() = default;

  std::string key_;
  std::vector<std::string> names_;  // directories of a mixture; empty without one
  std::vector<DataLoader> loaders_;
  std::vector<SupervisedTargets> targets_;  // one per dataset, or none without supervision
  std::optional<MixtureSchedule> schedule_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_TRAINING_DATA_H_
