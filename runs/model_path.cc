#include "runs/model_path.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_directory.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr char kAverageSuffix[] = "@ema";

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

absl::StatusOr<ModelPath> Describe(const fs::path& checkpoint, std::optional<fs::path> run) {
  ASSIGN_OR_RETURN(CheckpointState state, ReadCheckpointState(checkpoint));
  ModelPath path{.checkpoint = checkpoint, .run = std::move(run), .state = {}, .source = {}};
  path.source.set_checkpoint(checkpoint.string());
  path.source.set_step(state.step);
  path.source.set_newest_step(state.step);
  path.state = std::move(state);
  return path;
}

absl::StatusOr<ModelPath> FromRun(const fs::path& run) {
  const fs::path checkpoints = RunDirectory(run).checkpoints();
  const int64_t newest_step = NewestCheckpointStep(checkpoints);
  std::vector<std::string> skipped;
  ASSIGN_OR_RETURN(const auto newest, NewestGoodCheckpoint(checkpoints, &skipped));
  if (!newest.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(run.string(), " holds no checkpoint yet; wait for the run to save one"));
  }
  ASSIGN_OR_RETURN(ModelPath path, Describe(*newest, run));
  if (!skipped.empty()) path.source.set_newest_step(newest_step);
  path.source.mutable_skipped()->Assign(skipped.begin(), skipped.end());
  return path;
}

absl::StatusOr<ModelPath> FromCheckpoint(const fs::path& checkpoint) {
  const fs::path run = checkpoint.parent_path().parent_path();
  return Describe(checkpoint, IsRunDirectory(run) ? std::optional(run) : std::nullopt);
}

absl::StatusOr<ModelPath> FindAnyAge(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat("model ", path.string(), " does not exist"));
  }
  fs::path directory = fs::absolute(path).lexically_normal();
  if (directory.filename().empty()) directory = directory.parent_path();
  if (IsRunDirectory(directory)) return FromRun(directory);
  const absl::StatusOr<Manifest> manifest = Manifest::Load(directory);
  if (manifest.ok() && manifest->kind == kCheckpointKind) return FromCheckpoint(directory);
  if (!manifest.ok() && !absl::IsNotFound(manifest.status())) return manifest.status();
  return absl::NotFoundError(
      absl::StrCat(path.string(),
                   " is not a model directory: expected a run directory (with run.textproto) or "
                   "a checkpoint directory (with manifest.json of kind ",
                   kCheckpointKind, ")", ImportHint(directory)));
}

}  // namespace

WeightsReference SplitReference(const std::string& reference) {
  if (!reference.ends_with(kAverageSuffix)) return {.model = reference};
  const size_t length = reference.size() - std::string_view(kAverageSuffix).size();
  return {.model = reference.substr(0, length), .average = true};
}

absl::StatusOr<ModelPath> FindModel(const fs::path& path, bool strict) {
  const WeightsReference reference = SplitReference(path.string());
  ASSIGN_OR_RETURN(ModelPath found, FindAnyAge(reference.model));
  if (strict) RETURN_IF_ERROR(CheckNewest(found.source));
  if (!reference.average) return found;
  if (!found.state.has_average) {
    return absl::FailedPreconditionError(absl::StrCat(
        path.string(), ": ", found.checkpoint.string(), " has no average of the weights; name ",
        reference.model, ", or train with optimizer.ema_decay above 0"));
  }
  found.state.use_average = true;
  found.source.set_checkpoint(absl::StrCat(found.source.checkpoint(), kAverageSuffix));
  return found;
}

absl::StatusOr<std::string> CheckpointKey(const fs::path& checkpoint) {
  ASSIGN_OR_RETURN(const FileSummary manifest, SummarizeFile(checkpoint / kManifestName));
  return absl::StrCat(checkpoint.filename().string(), " ", manifest.bytes, " ", manifest.crc32c);
}

absl::Status CheckNewest(const v1::ModelSource& source) {
  if (source.skipped().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(absl::StrJoin(source.skipped(), "; "),
                                                    "; name ", source.checkpoint(),
                                                    " as the model to use step ", source.step()));
}

absl::Status AddSkipped(std::span<const std::string> causes, bool strict, v1::ModelSource* source) {
  if (strict && !causes.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(absl::StrJoin(causes, "; "), "; without strict, the result only warns of it"));
  }
  source->mutable_skipped()->Add(causes.begin(), causes.end());
  return absl::OkStatus();
}

std::string FallbackNote(const v1::ModelSource& source) {
  if (source.skipped().empty()) return "";
  if (source.step() == source.newest_step()) return absl::StrJoin(source.skipped(), "; ");
  return absl::StrCat("step ", source.step(), " was used instead of the newest, step ",
                      source.newest_step(), ": ", absl::StrJoin(source.skipped(), "; "));
}

bool IsRunDirectory(const fs::path& path) { return IsFile(RunDirectory(path).spec()); }

bool IsModelDirectory(const fs::path& path) {
  return IsRunDirectory(path) || IsFile(path / kConfigFile);
}

std::string ImportHint(const fs::path& path) {
  if (!IsFile(path / "config.json")) return "";
  return absl::StrCat("; import it first: braid import ", path.string(), " -o CHECKPOINT");
}

}  // namespace braid
