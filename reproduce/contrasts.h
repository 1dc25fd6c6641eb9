// Effects as signed sums of the losses of several arms, measured on the same windows or at the
// same steps with the same seeds.
//
//   // dense minus MoE, held-out
//   HeldoutEffect(evidence, {.arms = {{+1, "dense"}, {-1, "moe"}}}, options);
#ifndef BRAID_REPRODUCE_CONTRASTS_H_
#define BRAID_REPRODUCE_CONTRASTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evaluation/statistics/paired_bootstrap.h"
#include "reproduce/arm_result.h"

namespace braid {

// A domain as the corpus has it, known before any run.
struct DomainProfile {
  std::string name = {};
  // Of its training documents.
  int64_t num_tokens = 0;
  // Cosine of the mean embedding of its documents and that of all training documents, tokens
  // weighted: low for what is both rare and unlike the rest.
  double similarity = 0;
  // Of its held-out documents.
  int64_t num_heldout_tokens = 0;
  // Documents, before they were cut, of which something was held out.
  int64_t num_heldout_sources = 0;
};

struct Evidence {
  std::vector<ArmResult> results;
  std::vector<DomainProfile> domains;
};

// A term of the sum: which model on which data, and how it was scored.
struct SignedArm {
  double sign = 1;
  std::string arm = {};
  v1::OrderMode order = v1::SIMILARITY;
  ScoredRouting routing = ScoredRouting::kSegment;
};

// Mean over the tokens of some domains, times a coefficient.
struct DomainGroup {
  double coefficient = 1;
  // Empty: all.
  std::set<std::string> domains = {};
};

// Mean over the first or the later positions of windows, times a coefficient.
struct PositionGroup {
  double coefficient = 1;
  bool first = false;
};

struct HeldoutContrast {
  std::vector<SignedArm> arms = {};
  int32_t first_positions = 64;
  std::vector<PositionGroup> positions = {{}};
  std::vector<DomainGroup> groups = {{}};
};

// Part of the steps, as shares of all of them; (begin, end].
struct StepRange {
  double coefficient = 1;
  double begin = 0.5;
  double end = 1;
};

// Training losses without first segments.
struct TrainingContrast {
  std::vector<SignedArm> arms = {};
  std::vector<StepRange> ranges = {{}};
};

// Windows of one unit of the bootstrap: 8 successive ones, which may be of one source document;
// fewer in a domain of under 32 windows, so that it has 4 units.
int64_t WindowsOfBlock(int64_t num_windows);

// A unit of training steps: a fiftieth of the run.
int64_t StepsOfBlock(int64_t num_steps);

// Over the seeds that all arms were run with. NotFound when there is none: the message says what
// is missing. FailedPrecondition when two arms have not seen the same windows or steps. Domains
// whose windows have no tokens there are left out.
absl::StatusOr<EffectEstimate> HeldoutEffect(const Evidence& evidence,
                                             const HeldoutContrast& contrast,
                                             const PairedBootstrapOptions& options);
absl::StatusOr<EffectEstimate> TrainingEffect(const Evidence& evidence,
                                              const TrainingContrast& contrast,
                                              const PairedBootstrapOptions& options);

// The signed sum of a number that each run has, such as its expert utilisation. Seeds for which an
// arm does not have it are left out.
absl::StatusOr<EffectEstimate> StatisticEffect(
    const Evidence& evidence, const std::vector<SignedArm>& arms,
    const std::function<std::optional<double>(const ArmResult&)>& statistic,
    const PairedBootstrapOptions& options);

// The seeds of all of `arms`, ascending, and what each measured: [seed][arm].
absl::StatusOr<std::vector<std::vector<const ArmResult*>>> PairedRuns(
    const Evidence& evidence, const std::vector<SignedArm>& arms);

}  // namespace braid

#endif  // BRAID_REPRODUCE_CONTRASTS_H_
