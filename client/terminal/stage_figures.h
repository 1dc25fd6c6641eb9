// The figures of a stage of a corpus job on one line, as computed by the service.
#ifndef BRAID_CLIENT_TERMINAL_STAGE_FIGURES_H_
#define BRAID_CLIENT_TERMINAL_STAGE_FIGURES_H_

#include <string>

#include "braid/v1/job.pb.h"

namespace braid {

// Returns "ETA 0:12  12.3k documents/s  4.5 MB/s  512 MiB  3 rejected  chunk 3/10" without figures
// that are unknown or zero. Rejects are shown for ingest only. The order is by importance, since a
// narrow terminal cuts the line.
std::string StageFigures(const v1::StageProgress& stage);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_STAGE_FIGURES_H_
