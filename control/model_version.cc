#include "control/model_version.h"

#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runs/checkpoint_directory.h"
#include "runs/model_path.h"
#include "runs/run_directory.h"

namespace braid {

namespace fs = std::filesystem;

std::string ModelVersion(const fs::path& reference) {
  const fs::path model = SplitReference(reference.string()).model;
  if (IsRunDirectory(model)) {
    const auto names = ListCheckpoints(RunDirectory(model).checkpoints());
    return names.ok() && !names->empty() ? names->front() : "";
  }
  std::error_code error;
  const auto written = fs::last_write_time(model / "manifest.json", error);
  return error ? "" : absl::StrCat(written.time_since_epoch().count());
}

}  // namespace braid
