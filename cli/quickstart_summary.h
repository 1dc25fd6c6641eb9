// The results of a quickstart.
#ifndef BRAID_CLI_QUICKSTART_SUMMARY_H_
#define BRAID_CLI_QUICKSTART_SUMMARY_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/evaluation.pb.h"
#include "braid/v1/job.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// What a quickstart trains on, and for how long.
struct QuickstartSettings {
  // Files and directories of text; empty: the text of this machine.
  std::vector<std::string> paths = {};
  int64_t num_steps = 480;
};

// The results of one of the four runs.
struct QuickstartResult {
  v1::Run run;
  std::vector<v1::StepMetrics> metrics;
  v1::Evaluation evaluation;
};

// Returns the dense minus the MoE loss in nats per token without the first segment, averaged over
// the second half of training. Both runs read the same tokens at the same step. 0 when they have no
// step in common.
double TrainingGain(std::span<const v1::StepMetrics> dense, std::span<const v1::StepMetrics> moe);

// Returns the dense minus the MoE held-out loss in nats per token without first segments.
double HeldoutGain(const v1::Evaluation& dense, const v1::Evaluation& moe);

// Keyed by "dense-similarity", "moe-similarity", "dense-random", "moe-random".
using QuickstartResults = std::map<std::string, QuickstartResult>;

// Returns the contents of summary.json; docs/quickstart.md lists its fields.
std::string SummaryJson(const QuickstartSettings& settings, const v1::Job& similarity_job,
                        const QuickstartResults& results, double seconds);

// Returns InvalidArgument, naming `workdir`, when summary.json there is of other settings. A
// summary of an earlier version, which has none, passes.
absl::Status CheckSameSettings(const std::string& summary_json,
                               const std::filesystem::path& workdir,
                               const QuickstartSettings& settings);

// Returns the id of one of the four runs in summary.json.
std::string RunIdOf(const std::string& summary_json, const std::string& name);

// Prints summary.json as tables.
void PrintSummary(const std::string& summary_json, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLI_QUICKSTART_SUMMARY_H_
