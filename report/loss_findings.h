// The differences between losses, in words.
#ifndef BRAID_REPORT_LOSS_FINDINGS_H_
#define BRAID_REPORT_LOSS_FINDINGS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "report/report_run.h"
#include "report/run_comparison.h"

namespace braid {

// What a sentence needs to know of a run besides its losses.
struct RunOutcome {
  std::string name;  // plain text
  double tokens = 0;
  // It has not trained all its steps yet, and may.
  bool in_progress = false;
  // First of the steps without finite loss with which the run ends.
  std::optional<int64_t> diverged_at = {};
};
RunOutcome OutcomeOf(std::span<const ReportRun> runs, size_t run);

// "moe is 0.045 ± 0.004 nats per token below dense at equal tokens (983k); it reaches the final
// loss of dense at 78 % of its tokens." as HTML.
std::string LossSentence(const RunOutcome& base, const RunOutcome& other,
                         const LossComparison& comparison);

// "+0.045 ± 0.004", without the error where it is not finite.
std::string WithError(double value, double standard_error);

// A sentence for each run that diverged and for each comparable pair of others, as a list; empty
// without any.
std::string LossFindings(std::span<const ReportRun> runs);

}  // namespace braid

#endif  // BRAID_REPORT_LOSS_FINDINGS_H_
