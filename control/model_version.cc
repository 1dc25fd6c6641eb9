#include "control/model_version.h"

#include <algorithm>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "control/model_directory.h"
#include "runs/run_directory.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// Names of checkpoints contain the step in eight digits, so they sort by step. The name of one that
// is being written ends in .tmp.
std::string NewestCheckpointName(const fs::path& checkpoints) {
  std::string newest;
  std::error_code error;
  for (fs::directory_iterator entry(checkpoints, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!absl::StartsWith(name, "step-") || absl::StrContains(name, ".")) continue;
    const bool later = name.size() != newest.size() ? name.size() > newest.size() : name > newest;
    if (later) newest = name;
  }
  return newest;
}

}  // namespace

std::string ModelVersion(const fs::path& model) {
  if (IsRunDirectory(model)) return NewestCheckpointName(RunDirectory(model).checkpoints());
  std::error_code error;
  const auto written = fs::last_write_time(model / "manifest.json", error);
  return error ? "" : absl::StrCat(written.time_since_epoch().count());
}

}  // namespace braid
