// Sentences on the differences between the losses of runs.
#ifndef BRAID_REPORT_LOSS_FINDINGS_H_
#define BRAID_REPORT_LOSS_FINDINGS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "report/report_run.h"
#include "report/run_comparison.h"

namespace braid {

// The facts about a run that a sentence needs besides its losses.
struct RunOutcome {
  std::string name;  // plain text
  double tokens = 0;
  // The run has not completed all steps and may continue.
  bool in_progress = false;
  // First step from which on no loss is finite.
  std::optional<int64_t> diverged_at = {};
};
RunOutcome OutcomeOf(std::span<const ReportRun> runs, size_t run);

// Returns a sentence as HTML: "moe is 0.045 ± 0.004 nats per token below dense at equal tokens
// (983k); it reaches the final loss of dense at 78 % of its tokens."
std::string LossSentence(const RunOutcome& base, const RunOutcome& other,
                         const LossComparison& comparison);

// Returns "+0.045 ± 0.004", without the error if that is not finite.
std::string WithError(double value, double standard_error);

// Returns a list with a sentence for each run that diverged and for each comparable pair of the
// others; "" if there are none.
std::string LossFindings(std::span<const ReportRun> runs);

}  // namespace braid

#endif  // BRAID_REPORT_LOSS_FINDINGS_H_
