// The figures of a stage of a corpus job that people watch, in one line: as they
// come from the service, which alone computes them.
#ifndef BRAID_CLIENT_TERMINAL_STAGE_FIGURES_H_
#define BRAID_CLIENT_TERMINAL_STAGE_FIGURES_H_

#include <string>

#include "braid/v1/pipeline.pb.h"

namespace braid {

// "ETA 0:12  12.3k documents/s  4.5 MB/s  512 MiB  3 rejected  chunk 3/10", without
// what is not known or zero; rejects at ingest only, where they come about. The most wanted comes
// first: a narrow terminal cuts the rest.
std::string StageFigures(const v1::StageProgress& stage);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_STAGE_FIGURES_H_
