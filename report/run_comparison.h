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

// The comparison of the loss of a run with that of a base run.
struct LossComparison {
  // Tokens that both runs have trained on.
  double common_tokens = 0;
  // Base minus other, in nats per token: the mean over the last tenth of the common tokens, and its
  // standard error under the assumption of independent steps. Positive if the other run is better.
  double difference = 0;
  double standard_error = 0;
  // Tokens at which the other run reaches the final loss of the base, divided by the tokens at
  // which the base reaches it. Both are taken from curves that are smoothed and made monotone in
  // the same way, so that equal runs give 1. Absent if the other run never reaches that loss, or if
  // the difference is within noise.
  std::optional<double> share_of_tokens;
  // Returns whether the difference is at least two standard errors, and not zero.
  bool IsClear() const;
};

// Compares two curves over tokens, with x ascending. The base is interpolated linearly between its
// points. Returns nullopt if either has no finite point or they share no tokens.
std::optional<LossComparison> CompareLoss(std::span<const PlotPoint> base,
                                          std::span<const PlotPoint> other);

bool IsDense(const v1::RunSpec& spec);

// Returns the names of the settings other than those of the experts that affect training and
// differ: "seed", "model.num_heads", "optimizer.learning_rate".
std::vector<std::string> DifferingSettings(const v1::RunSpec& a, const v1::RunSpec& b);

// Returns the indices (dense, MoE) of runs that differ only in their experts: each MoE with the
// first such dense run, so that repeated runs of one specification make one pair each.
std::vector<std::pair<size_t, size_t>> PairRuns(std::span<const ReportRun> runs);

// Returns the indices (base, other) of runs whose losses are on the same tokens: the pairs of
// PairRuns or, if there are none, the first run with each later one that has the same dataset,
// vocabulary, sequence length and segment length. The latter may have DifferingSettings.
std::vector<std::pair<size_t, size_t>> ComparablePairs(std::span<const ReportRun> runs);

}  // namespace braid

#endif  // BRAID_REPORT_RUN_COMPARISON_H_
