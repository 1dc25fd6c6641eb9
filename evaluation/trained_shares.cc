#include "evaluation/trained_shares.h"

#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "evaluation/tasks/training_share.h"
#include "formats/task_shares.h"
#include "runs/conversion_record.h"
#include "runs/run_directory.h"

namespace braid {
namespace {

// Returns the datasets of a run. One of a home that was moved is looked for beside the run.
std::vector<std::filesystem::path> DatasetsOf(const v1::RunSpec& spec,
                                              const std::filesystem::path& run) {
  std::vector<std::filesystem::path> datasets;
  const auto add = [&](const std::filesystem::path& dataset) {
    if (dataset.empty()) return;
    std::error_code error;
    const std::filesystem::path home = run.parent_path().parent_path();
    const bool moved = !std::filesystem::exists(dataset, error);
    datasets.push_back(moved ? home / "supervised" / dataset.filename() : dataset);
  };
  if (spec.datasets().empty()) add(spec.dataset_dir());
  for (const v1::MixtureDataset& entry : spec.datasets()) add(entry.dataset());
  return datasets;
}

// Finds the model that `run`, if the model is of one, started from. One of a home that was moved is
// looked for beside the run. The error is that of the path as it was recorded.
absl::StatusOr<ModelPath> FindPredecessor(const std::string& reference,
                                          const std::optional<std::filesystem::path>& run) {
  // The average has seen the same examples.
  const std::filesystem::path recorded = SplitReference(reference).model;
  absl::StatusOr<ModelPath> found = FindModel(recorded, /*strict=*/false);
  if (found.ok() || !run) return found;
  const std::filesystem::path directory = recorded.parent_path();
  std::filesystem::path name = recorded.filename();
  if (directory.filename() == RunDirectory(*run).checkpoints().filename()) {
    name = directory.parent_path().filename() / directory.filename() / name;
  }
  absl::StatusOr<ModelPath> moved = FindModel(run->parent_path() / name, /*strict=*/false);
  return moved.ok() ? moved : found;
}

}  // namespace

absl::StatusOr<std::string> AddTrainedShares(const std::string& name, const ModelPath& model,
                                             TrainedShares* trained) {
  ModelPath at = model;
  // A model that was converted in its place is its own source.
  std::set<std::filesystem::path> seen;
  while (seen.insert(at.checkpoint).second) {
    std::string start = at.state.partial.base().checkpoint();
    if (at.run) {
      ASSIGN_OR_RETURN(const v1::RunSpec spec, RunDirectory(*at.run).ReadSpec());
      for (const std::filesystem::path& dataset : DatasetsOf(spec, *at.run)) {
        ASSIGN_OR_RETURN(const std::vector<TaskShare> shares, ReadTaskShares(dataset));
        for (const TaskShare& one : shares) {
          TrainedShare& known = (*trained)[one.task];
          if (one.share > known.share) known = {one.share, name};
        }
      }
      if (start.empty()) start = spec.init_from();
    }
    if (start.empty()) {
      ASSIGN_OR_RETURN(const auto conversion, ReadConversion(at.checkpoint));
      if (conversion) start = conversion->source().checkpoint();
    }
    if (start.empty()) break;
    absl::StatusOr<ModelPath> next = FindPredecessor(start, at.run);
    if (!next.ok()) {
      return absl::StrCat(name, ": examples that a model before it was fine-tuned on, if any, are ",
                          "not left out: ", next.status().message());
    }
    at = *std::move(next);
  }
  return "";
}

absl::StatusOr<LoadedTask> LoadTaskFor(const TrainedShares& trained, const v1::TaskSpec& spec,
                                       const std::string& data_dir, int num_shots) {
  ASSIGN_OR_RETURN(LoadedTask task, LoadTask(spec, data_dir, num_shots));
  const auto found = trained.find(spec.name());
  if (found == trained.end()) return task;
  RETURN_IF_ERROR(LeaveOutTrainingShare(found->second.share, &task));
  return task;
}

std::string LeftOutNote(const TrainedShares& trained, const LoadedTask& task) {
  if (task.num_left_out == 0) return "";
  return absl::StrCat(task.spec.name(), ": ", task.num_left_out, " of ",
                      task.num_left_out + static_cast<int64_t>(task.examples.size()),
                      " examples, because ", trained.at(task.spec.name()).model,
                      " was fine-tuned on this share of them");
}

}  // namespace braid
