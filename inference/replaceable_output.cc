#include "inference/replaceable_output.h"

#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "formats/manifest.h"
#include "runs/checkpoint.h"
#include "runs/conversion_record.h"
#include "runs/model_path.h"
#include "runs/run_directory.h"

namespace braid {

namespace fs = std::filesystem;

absl::Status RefuseToReplace(const fs::path& directory, const std::string& has) {
  return absl::FailedPreconditionError(absl::StrCat(
      directory.string(), " ", has, ", so --force does not replace it; remove it first"));
}

absl::Status CheckHoldsOnly(const fs::path& directory,
                            const std::function<bool(const std::string& name)>& known) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.symlink_status(error).type() != fs::file_type::regular || !known(name)) {
      return RefuseToReplace(directory,
                             absl::StrCat("holds ", name, ", which this command does not write"));
    }
  }
  if (!error) return absl::OkStatus();
  return RefuseToReplace(directory, absl::StrCat("cannot be read (", error.message(), ")"));
}

absl::Status CheckHoldsOnlyACheckpoint(const fs::path& directory) {
  const absl::StatusOr<Manifest> manifest = Manifest::Load(directory, "");
  if (!manifest.ok() || manifest->kind != kCheckpointKind) {
    return RefuseToReplace(directory, "is not a checkpoint");
  }
  std::error_code error;
  const fs::path run = directory.parent_path().parent_path();
  if (fs::exists(RunDirectory(run).spec(), error)) {
    return RefuseToReplace(directory, absl::StrCat("is a checkpoint of the run ", run.string()));
  }
  return CheckHoldsOnly(directory, [&](const std::string& name) {
    return name == kManifestName || name == kConversionFile || manifest->Find(name) != nullptr;
  });
}

absl::Status CheckKeepsBase(const fs::path& output, const std::string& base) {
  std::set<fs::path> seen;
  for (std::string at = base; !at.empty();) {
    std::error_code error;
    if (fs::equivalent(output, at, error)) {
      return absl::FailedPreconditionError(
          absl::StrCat("output_dir: ", output.string(),
                       " holds the base of adapters, which would be lost, so it is not replaced; "
                       "choose another directory"));
    }
    const absl::StatusOr<ModelPath> found = FindModel(at, /*strict=*/false);
    if (!found.ok() || !seen.insert(found->checkpoint).second) break;
    at = found->state.partial.base().checkpoint();
  }
  return absl::OkStatus();
}

}  // namespace braid
