#include "trainer/training_data.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/packed_dataset.h"
#include "model/config/model_config.h"
#include "runs/mixture_spec.h"

namespace braid {
namespace {

absl::StatusOr<DataLoader> OpenInstances(const std::string& dataset_dir, const DatasetInfo& info) {
  const std::filesystem::path prefix = std::filesystem::path(dataset_dir) / "instances";
  ASSIGN_OR_RETURN(DataLoader loader, DataLoader::Open(prefix, info));
  if (loader.num_instances() == info.num_instances && info.num_instances > 0) return loader;
  return absl::DataLossError(absl::StrCat(prefix.string(), ".idx: got ", loader.num_instances(),
                                          " instances, expected the ", info.num_instances,
                                          " of dataset.json"));
}

}  // namespace

absl::StatusOr<TrainingData> TrainingData::Open(const v1::RunSpec& resolved, bool verify) {
  TrainingData data;
  std::vector<std::string> directories = {resolved.dataset_dir()};
  if (!resolved.datasets().empty()) {
    for (const v1::MixtureDataset& entry : resolved.datasets()) {
      data.names_.push_back(entry.dataset());
    }
    directories = data.names_;
  }
  std::vector<DatasetInfo> infos;
  for (const std::string& directory : directories) {
    if (verify) RETURN_IF_ERROR(VerifyDataset(directory));
    ASSIGN_OR_RETURN(infos.emplace_back(), ReadDatasetInfo(directory));
    ASSIGN_OR_RETURN(DataLoader loader, OpenInstances(directory, infos.back()));
    if (infos.back().supervised) {
      ASSIGN_OR_RETURN(SupervisedTargets targets,
                       SupervisedTargets::Open(
                           std::filesystem::path(directory) / kSpansName, loader,
                           RoutesOnOtherTokens(resolved.model().routing()), resolved.model()));
      data.targets_.push_back(std::move(targets));
    }
    data.loaders_.push_back(std::move(loader));
  }
  data.key_ = DataKey(resolved, infos);
  data.schedule_.emplace(ScheduleOfMixture(resolved, infos));
  return data;
}

absl::StatusOr<RankBatch> TrainingData::Load(int64_t step, int rank, int world_size) const {
  RankBatch work;
  work.step = step;
  work.num_datasets = static_cast<int32_t>(names_.size());
  std::vector<std::vector<int32_t>> sequences;
  for (const MixtureSchedule::Item& item : schedule_->Items(step, rank, world_size)) {
    ASSIGN_OR_RETURN(sequences.emplace_back(), loaders_[item.dataset].Read(item.instance));
    work.instances.push_back(item.instance);
    work.datasets.push_back(item.dataset);
  }
  work.batch = loaders_[0].Assemble(sequences);
  for (size_t i = 0; i < sequences.size() && !targets_.empty(); ++i) {
    targets_[work.datasets[i]].Apply(work.instances[i], static_cast<int64_t>(i), &work.batch);
  }
  return work;
}

std::vector<v1::DatasetLoss> TrainingData::LossesOf(int64_t step,
                                                    const std::vector<DatasetSums>& sums) const {
  std::vector<v1::DatasetLoss> losses;
  if (names_.empty()) return losses;
  const std::vector<int64_t> before = schedule_->CountsBefore(step);
  const std::vector<int64_t> after = schedule_->CountsBefore(step + 1);
  for (size_t d = 0; d < names_.size(); ++d) {
    v1::DatasetLoss& loss = losses.emplace_back();
    loss.set_dataset(names_[d]);
    loss.set_loss(sums[d].num_tokens > 0 ? sums[d].loss / sums[d].num_tokens : 0);
    loss.set_num_instances(after[d] - before[d]);
    loss.set_total_instances(after[d]);
  }
  return losses;
}

}  // namespace braid
