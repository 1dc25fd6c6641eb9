#include "client/terminal/stage_figures.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/terminal/progress_board.h"

namespace braid {

std::string StageFigures(const v1::StageProgress& stage) {
  if (!stage.waiting().empty()) return stage.waiting();
  std::vector<std::string> figures;
  if (stage.eta_seconds() > 0) {
    figures.push_back(absl::StrCat("ETA ", FormatClock(stage.eta_seconds())));
  }
  if (stage.documents_per_second() > 0) {
    figures.push_back(absl::StrCat(CompactCount(stage.documents_per_second()), " documents/s"));
  }
  if (stage.bytes_per_second() > 0) {
    figures.push_back(absl::StrFormat("%.1f MB/s", stage.bytes_per_second() / 1e6));
  }
  if (stage.resident_bytes() > 0 && !stage.complete()) {
    figures.push_back(absl::StrFormat("%.0f MiB", stage.resident_bytes() / double{1 << 20}));
  }
  // Later stages report the same number.
  if (stage.rejects() > 0 && stage.stage() == "ingest")
    figures.push_back(absl::StrCat(stage.rejects(), " rejected"));
  if (stage.chunk() > 0 && !stage.complete()) {
    const std::string of = stage.num_chunks() > 0 ? absl::StrCat("/", stage.num_chunks()) : "";
    figures.push_back(absl::StrCat("chunk ", stage.chunk(), of));
  }
  return absl::StrJoin(figures, "  ");
}

}  // namespace braid
