#include "cli/finding.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"

namespace braid {

std::string GradeName(Grade verdict) {
  switch (verdict) {
    case Grade::kGood:
      return "good";
    case Grade::kWarning:
      return "warning";
    case Grade::kBad:
      return "bad";
  }
  return "unknown";
}

void PrintFindings(const Findings& findings, std::ostream& out) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.what.size());
  for (const Finding& finding : findings) {
    out << absl::StrFormat("%-8s  %-*s  %s\n", GradeName(finding.verdict), static_cast<int>(width),
                           finding.what, finding.found);
    if (finding.verdict == Grade::kGood || finding.hint.empty()) continue;
    out << std::string(12 + width, ' ') << finding.hint << "\n";
  }
}

std::string FindingsToJson(const Findings& findings) {
  nlohmann::json array = nlohmann::json::array();
  for (const Finding& finding : findings) {
    array.push_back({{"verdict", GradeName(finding.verdict)},
                     {"what", finding.what},
                     {"found", finding.found},
                     {"hint", finding.verdict == Grade::kGood ? "" : finding.hint}});
  }
  return array.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace braid
