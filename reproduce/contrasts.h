// Effects as signed sums of the losses of several arms, which are paired: measured on the same
// windows or at the same steps with the same seeds. For example, the held-out loss of dense minus
// MoE:
//
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
#include "reproduce/scored_text.h"

namespace braid {

// A domain of the corpus. All fields are known before any run.
struct DomainProfile {
  std::string name = {};
  // Tokens of its training documents.
  int64_t num_tokens = 0;
  // Cosine of the mean embedding of its documents and that of all training documents, weighted by
  // tokens. Low for a domain that is both rare and different from the rest.
  double similarity = 0;
  // Tokens of its held-out documents.
  int64_t num_heldout_tokens = 0;
  // Source documents (before they were cut) with held-out parts.
  int64_t num_heldout_sources = 0;
};

struct Evidence {
  std::vector<ArmResult> results;
  std::vector<DomainProfile> domains;
  ScoredTexts scored_texts = {};
};

// A term of the sum: a model, its training data, and the routing with which it was scored.
struct SignedArm {
  double sign = 1;
  std::string arm = {};
  v1::OrderMode order = v1::SIMILARITY;
  ScoredRouting routing = ScoredRouting::kSegment;
  // Experts per token with which a TOKEN_CHOICE model was scored; 0: other models.
  int32_t active_experts = 0;
  // The task on which a model was fine-tuned; empty for other models.
  std::string task = {};
};

// Returns the loss of `first` minus that of `second`.
std::vector<SignedArm> Difference(const std::string& first, const std::string& second,
                                  v1::OrderMode order = v1::SIMILARITY);

// The mean over the tokens of some domains, multiplied by a coefficient.
struct DomainGroup {
  double coefficient = 1;
  // Empty: all.
  std::set<std::string> domains = {};
};

// The mean over the first or the later positions of windows, multiplied by a coefficient.
struct PositionGroup {
  double coefficient = 1;
  bool first = false;
};

struct HeldoutContrast {
  std::vector<SignedArm> arms = {};
  int32_t first_positions = 64;
  // As HeldoutScore::dataset.
  std::string dataset = {};
  std::vector<PositionGroup> positions = {{}};
  std::vector<DomainGroup> groups = {{}};
};

// The steps (begin, end], as fractions of all steps.
struct StepRange {
  double coefficient = 1;
  double begin = 0.5;
  double end = 1;
};

// A contrast of training losses without first segments.
struct TrainingContrast {
  std::vector<SignedArm> arms = {};
  std::vector<StepRange> ranges = {{}};
};

// Returns the number of successive windows in a block of the bootstrap: 8, since adjacent windows
// may come from the same document; fewer in a domain with under 32 windows, so that it has 4
// blocks.
int64_t WindowsOfBlock(int64_t num_windows);

// Returns the number of training steps in a block: one fiftieth of the run.
int64_t StepsOfBlock(int64_t num_steps);

// Return the effect over the seeds that all arms were run with. Domains without tokens at the
// positions are left out. Errors: NotFound if there is no such seed, with a message that names what
// is missing; FailedPrecondition if two arms do not have the same windows or steps.
absl::StatusOr<EffectEstimate> HeldoutEffect(const Evidence& evidence,
                                             const HeldoutContrast& contrast,
                                             const PairedBootstrapOptions& options);
absl::StatusOr<EffectEstimate> TrainingEffect(const Evidence& evidence,
                                              const TrainingContrast& contrast,
                                              const PairedBootstrapOptions& options);

// Returns the signed sum of a statistic of each run, such as its expert utilization. Seeds without
// the statistic in one of the arms are left out.
absl::StatusOr<EffectEstimate> StatisticEffect(
    const Evidence& evidence, const std::vector<SignedArm>& arms,
    const std::function<std::optional<double>(const ArmResult&)>& statistic,
    const PairedBootstrapOptions& options);

// Returns the results [seed][arm] for the seeds that all `arms` have, in ascending order.
absl::StatusOr<std::vector<std::vector<const ArmResult*>>> PairedRuns(
    const Evidence& evidence, const std::vector<SignedArm>& arms);

}  // namespace braid

#endif  // BRAID_REPRODUCE_CONTRASTS_H_
