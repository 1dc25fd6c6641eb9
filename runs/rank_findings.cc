#include "runs/rank_findings.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace braid {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFindings, rank, world_size, host, allowed_cores, host_cores,
                                   threads, blas_core, better_blas_core, openmp_runtimes,
                                   clock_offset_seconds, visible_after_seconds,
                                   file_clock_offset_seconds)

std::string ToJsonLine(const RankFindings& findings) { return nlohmann::json(findings).dump(); }

absl::StatusOr<RankFindings> ParseRankFindings(const std::string& line) {
  try {
    return nlohmann::json::parse(line).get<RankFindings>();
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("not a rank's findings: ", error.what()));
  }
}

}  // namespace braid
