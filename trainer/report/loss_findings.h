// The differences between losses, in words.
#ifndef BRAID_TRAINER_REPORT_LOSS_FINDINGS_H_
#define BRAID_TRAINER_REPORT_LOSS_FINDINGS_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/report/report_run.h"
#include "trainer/report/run_curves.h"

namespace braid {

// Indices (base, other) of runs whose losses can be compared: the pairs of PairRuns; without any,
// the first run with each later one that has its dataset and vocabulary.
std::vector<std::pair<size_t, size_t>> ComparablePairs(std::span<const ReportRun> runs);

// "moe is 0.045 nats per token below dense at equal tokens (983k); it reaches the final loss
// of dense at 78 % of its tokens." as HTML; the names are plain text.
std::string LossSentence(const std::string& base, const std::string& other,
                         const LossComparison& comparison);

// A sentence for each comparable pair, as a list; empty without any.
std::string LossFindings(std::span<const ReportRun> runs);

}  // namespace braid

#endif  // BRAID_TRAINER_REPORT_LOSS_FINDINGS_H_
