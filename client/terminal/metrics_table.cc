#include "client/terminal/metrics_table.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/number_text.h"
#include "client/terminal/tables.h"
#include "client/terminal/terminal_text.h"

namespace braid {
namespace {

constexpr int kColumns = 80;

// Returns at most 10 characters.
std::string Number(double value) {
  if (value == std::trunc(value) && std::abs(value) < 1e9) return absl::StrFormat("%.0f", value);
  return absl::StrFormat(value < 0 || value >= 1e5 ? "%.4g" : "%.5g", value);
}

bool IsOfAnExpert(const v1::MetricSeries& series) {
  return absl::StrContains(series.name(), ".mean_weights.") ||
         absl::StrContains(series.name(), ".load.");
}

}  // namespace

void PrintMetricsSummary(const v1::MetricsSummary& summary, std::ostream& out) {
  out << ClipColumns(absl::StrCat(summary.run(), ", ", Counted(summary.num_steps(), "step")),
                     kColumns)
      << "\n";
  std::vector<std::vector<std::string>> rows = {{"SERIES", "STEPS", "LAST", "MIN", "MAX"}};
  int64_t of_experts = 0;
  for (const v1::MetricSeries& series : summary.series()) {
    of_experts += IsOfAnExpert(series);
    if (IsOfAnExpert(series)) continue;
    rows.push_back({series.name(), absl::StrCat(series.num_steps()), Number(series.last()),
                    Number(series.min()), Number(series.max())});
  }
  if (summary.num_steps() == 0) {
    out << "no step is complete yet\n";
    return;
  }
  PrintTable(rows, out);
  if (of_experts > 0) {
    out << "not shown: " << of_experts << " series of single experts (see --json, --csv FILE)\n";
  }
}

}  // namespace braid
