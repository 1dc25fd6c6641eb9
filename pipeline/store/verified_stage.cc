#include "pipeline/store/verified_stage.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "pipeline/store/file_version.h"

namespace braid {
namespace {

// The files that have been verified, with the version and the checksum at that time.
class VerifiedFiles {
 public:
  absl::Status Verify(const std::filesystem::path& directory, const ManifestEntry& entry) {
    const std::string path = (directory / entry.name).string();
    ASSIGN_OR_RETURN(const FileVersion version, ReadableFileVersion(path));
    const std::pair now(version, entry.crc32c);
    {
      const std::lock_guard lock(mutex_);
      const auto known = verified_.find(path);
      if (known != verified_.end() && known->second == now) return absl::OkStatus();
    }
    // Without the mutex, because this reads the whole file; two threads may verify the same one.
    if (const absl::Status status = VerifyFile(directory, entry); !status.ok()) {
      if (IsSystemError(status)) return status;
      return absl::Status(
          status.code(), absl::StrCat(status.message(), "; submit the corpus again to rebuild it"));
    }
    // A write during the verification changes the version, which the next call finds.
    const std::lock_guard lock(mutex_);
    verified_.insert_or_assign(path, now);
    return absl::OkStatus();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::pair<FileVersion, uint32_t>> verified_;
};

VerifiedFiles& Verified() {
  static auto* const files = new VerifiedFiles;
  return *files;
}

}  // namespace

absl::Status VerifyStageFiles(const std::filesystem::path& directory,
                              const std::function<bool(std::string_view name)>& wanted) {
  ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Load(directory));
  for (const ManifestEntry& entry : manifest.files) {
    if (wanted(entry.name)) RETURN_IF_ERROR(Verified().Verify(directory, entry));
  }
  return absl::OkStatus();
}

absl::Status VerifyStageFile(const std::filesystem::path& directory, std::string_view name) {
  ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Load(directory));
  const ManifestEntry* const entry = manifest.Find(name);
  if (entry != nullptr) return Verified().Verify(directory, *entry);
  return absl::DataLossError(
      absl::StrCat((directory / kManifestName).string(), " does not list ", std::string(name)));
}

}  // namespace braid
