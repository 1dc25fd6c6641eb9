#include "runs/checkpoint_directory.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "runs/checkpoint.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "step-";
constexpr char kTemporary[] = ".tmp";

// Renames the checkpoint first, so that an interrupted removal does not leave a partial checkpoint
// under a valid name.
absl::Status RemoveCheckpoint(const fs::path& checkpoint) {
  fs::path aside = checkpoint;
  aside += ".old";
  aside += kTemporary;
  RETURN_IF_ERROR(RemoveTree(aside));
  std::error_code error;
  fs::rename(checkpoint, aside, error);
  if (error) return SystemError("rename", checkpoint, error.value());
  return RemoveTree(aside);
}

bool IsCheckpointName(const std::string& name) {
  return absl::StartsWith(name, kPrefix) && name.size() > sizeof(kPrefix) - 1 &&
         std::all_of(name.begin() + sizeof(kPrefix) - 1, name.end(),
                     [](unsigned char c) { return c >= '0' && c <= '9'; });
}

bool IsLeftoverName(const std::string& name) {
  return absl::StartsWith(name, kPrefix) && absl::EndsWith(name, kTemporary);
}

// Returns the names in `directory` for which `wanted` is true; none when it does not exist.
absl::StatusOr<std::vector<std::string>> List(const fs::path& directory,
                                              bool (*wanted)(const std::string&)) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(directory, error), end;
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (wanted(name)) names.push_back(name);
  }
  if (error) return SystemError("list", directory, error.value());
  return names;
}

// Returns "checkpoint DIRECTORY is damaged: CAUSE". The cause names files without the directory.
std::string DamageText(const fs::path& checkpoint, const absl::Status& damage) {
  const std::string directory = checkpoint.string();
  return absl::StrCat(
      "checkpoint ", directory, " is damaged: ",
      absl::StrReplaceAll(damage.message(), {{directory + "/", ""}, {directory + ": ", ""}}));
}

bool IsMultiple(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

}  // namespace

fs::path CheckpointPath(const fs::path& checkpoints, int64_t step) {
  return checkpoints / absl::StrFormat("%s%08d", kPrefix, step);
}

fs::path StagingPath(const fs::path& checkpoints, int64_t step, const std::string& attempt) {
  fs::path path = CheckpointPath(checkpoints, step);
  path += absl::StrCat(".", attempt, kTemporary);
  return path;
}

// Sorts by number, since step numbers of more than eight digits make longer names.
absl::StatusOr<std::vector<std::string>> ListCheckpoints(const fs::path& directory) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, List(directory, IsCheckpointName));
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) > std::pair(b.size(), b);
  });
  return names;
}

int64_t StepOfCheckpoint(const std::string& name) {
  int64_t step = 0;
  return absl::SimpleAtoi(name.substr(sizeof(kPrefix) - 1), &step) ? step : 0;
}

absl::StatusOr<std::vector<int64_t>> CheckpointSteps(const fs::path& checkpoints) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListCheckpoints(checkpoints));
  std::vector<int64_t> steps;
  for (const std::string& name : names) steps.push_back(StepOfCheckpoint(name));
  return steps;
}

int64_t NewestCheckpointStep(const fs::path& checkpoints) {
  const absl::StatusOr<std::vector<int64_t>> steps = CheckpointSteps(checkpoints);
  return steps.ok() && !steps->empty() ? steps->front() : 0;
}

bool IsCheckpointDamage(const absl::Status& status) {
  if (absl::IsDataLoss(status)) return !IsSystemError(status);
  return absl::IsNotFound(status) || absl::IsInvalidArgument(status);
}

absl::StatusOr<std::optional<fs::path>> FirstGoodCheckpoint(const fs::path& checkpoints,
                                                            const std::vector<std::string>& names,
                                                            const VerifyCheckpointFn& verify,
                                                            std::vector<std::string>* skipped) {
  for (const std::string& name : names) {
    absl::Status damage;
    RETURN_IF_ERROR(verify(checkpoints / name, &damage));
    if (damage.ok()) return checkpoints / name;
    skipped->push_back(DamageText(checkpoints / name, damage));
  }
  if (names.empty()) return std::nullopt;
  return absl::DataLossError(
      absl::StrCat("no checkpoint in ", checkpoints.string(), " is good (", names.size(),
                   " damaged); remove all to start again from the first step"));
}

absl::StatusOr<std::optional<fs::path>> NewestGoodCheckpoint(const fs::path& checkpoints,
                                                             std::vector<std::string>* skipped) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListCheckpoints(checkpoints));
  const auto verify = [](const fs::path& checkpoint, absl::Status* damage) {
    const absl::Status status = VerifyCheckpoint(checkpoint);
    if (!status.ok() && !IsCheckpointDamage(status)) return status;
    *damage = status;
    return absl::OkStatus();
  };
  return FirstGoodCheckpoint(checkpoints, names, verify, skipped);
}

// At every instant the final name denotes nothing or a complete checkpoint: the old directory is
// moved aside by one rename, the new one takes its place by another. A crash between the two loses
// only a checkpoint that was damaged.
absl::Status PublishCheckpoint(const fs::path& checkpoints, int64_t step, const fs::path& staging) {
  const fs::path final_path = CheckpointPath(checkpoints, step);
  std::error_code error;
  if (fs::exists(final_path, error)) RETURN_IF_ERROR(RemoveCheckpoint(final_path));
  return PublishDirectory(staging, final_path);
}

bool IsKeptForGood(const CheckpointRetention& retention, int64_t step) {
  return IsMultiple(step, retention.keep_every_steps) || step == retention.best_step;
}

bool IsRegular(const CheckpointRetention& retention, int64_t step) {
  return retention.regular_steps > 0 &&
         (step % retention.regular_steps == 0 || step == retention.branch_step);
}

absl::Status RotateCheckpoints(const fs::path& checkpoints, int64_t step,
                               const CheckpointRetention& retention) {
  BRAID_CHECK(retention.keep_last >= 1) << retention.keep_last;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListCheckpoints(checkpoints));
  const auto newest =
      std::find(names.begin(), names.end(), CheckpointPath(checkpoints, step).filename().string());
  BRAID_CHECK(newest != names.end()) << step;
  bool has_regular = false;
  absl::Status removed;
  for (auto it = newest; it != names.end(); ++it) {
    const int64_t of = StepOfCheckpoint(*it);
    const bool regular = !has_regular && IsRegular(retention, of);
    has_regular = has_regular || regular;
    const bool keep = it - newest < retention.keep_last || regular || IsKeptForGood(retention, of);
    if (!keep) removed.Update(RemoveCheckpoint(checkpoints / *it));
  }
  return removed;
}

absl::Status RemoveLaterCheckpoints(const fs::path& checkpoints, int64_t step) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListCheckpoints(checkpoints));
  const std::string kept = CheckpointPath(checkpoints, step).filename();
  for (const std::string& name : names) {
    if (name == kept) break;
    RETURN_IF_ERROR(RemoveCheckpoint(checkpoints / name));
  }
  return absl::OkStatus();
}

absl::Status RemoveLeftovers(const fs::path& checkpoints) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, List(checkpoints, IsLeftoverName));
  for (const std::string& name : names) RETURN_IF_ERROR(RemoveTree(checkpoints / name));
  return absl::OkStatus();
}

}  // namespace braid
