// Which runs of a report can be compared, and how their losses differ.
#ifndef BRAID_REPORT_RUN_COMPARISON_H_
#define BRAID_REPORT_RUN_COMPARISON_H_

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "braid/v1/training.pb.h"
#include "report/plot_series.h"
#include "report/report_run.h"

namespace braid {

// How the loss of one run compares with that of a base.
struct LossComparison {
  // Tokens that both have seen.
  double common_tokens = 0;
  // Base minus other: mean over the last tenth of the common tokens, nats per token, and the
  // standard error of that mean if steps were independent. Above zero, the other is better.
  double difference = 0;
  double standard_error = 0;
  // Tokens at which the other is as low as the base at its end, over those at which the base is;
  // both are read off curves smoothed and made to fall in the same way, so that equal runs give 1.
  // Absent when the other never is, or the difference is no more than noise.
  std::optional<double> share_of_tokens;
  // The difference is at least two standard errors, and not zero.
  bool IsClear() const;
};

// Curves over tokens, x ascending; between points the base is linear. Absent when either has no
// finite point or they share no tokens.
std::optional<LossComparison> CompareLoss(std::span<const PlotPoint> base,
                                          std::span<const PlotPoint> other);

bool IsDense(const v1::RunSpec& spec);

// Names of the fields that decide what a run learns, apart from its experts, and that differ:
// "seed", "model.num_heads", "optimizer.learning_rate".
std::vector<std::string> DifferingSettings(const v1::RunSpec& a, const v1::RunSpec& b);

// Indices (dense, MoE) of runs that differ only in their experts.
std::vector<std::pair<size_t, size_t>> PairRuns(std::span<const ReportRun> runs);

// Indices (base, other) of runs whose losses are of the same tokens: the pairs of PairRuns;
// without any, the first run with each later one of its dataset, vocabulary, sequence and segment
// length. Those may have DifferingSettings.
std::vector<std::pair<size_t, size_t>> ComparablePairs(std::span<const ReportRun> runs);

}  // namespace braid

#endif  // BRAID_REPORT_RUN_COMPARISON_H_
