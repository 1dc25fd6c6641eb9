// The numbers a quickstart ends with.
#ifndef BRAID_CLI_QUICKSTART_SUMMARY_H_
#define BRAID_CLI_QUICKSTART_SUMMARY_H_

#include <map>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/pipeline.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Everything one of the four runs produced.
struct QuickstartResult {
  v1::Run run;
  std::vector<v1::StepMetrics> metrics;
  v1::Evaluation evaluation;
};

// Dense minus MoE loss, nats per token without the first segment, averaged over
// the second half of training. Both runs see the same tokens at the same step.
// 0 when they have no step in common.
double TrainingGain(std::span<const v1::StepMetrics> dense, std::span<const v1::StepMetrics> moe);

// Dense minus MoE held-out loss, nats per token without first segments.
double HeldoutGain(const v1::Evaluation& dense, const v1::Evaluation& moe);

// Keyed by "dense-similarity", "moe-similarity", "dense-random", "moe-random".
using QuickstartResults = std::map<std::string, QuickstartResult>;

// summary.json; docs/quickstart.md lists the fields.
std::string SummaryJson(const v1::Job& similarity_job, const QuickstartResults& results,
                        double seconds);

// The id of one of the four runs in summary.json.
std::string RunIdOf(const std::string& summary_json, const std::string& name);

// The same as a short table for people.
void PrintSummary(const std::string& summary_json, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLI_QUICKSTART_SUMMARY_H_
