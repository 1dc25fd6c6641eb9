// What the runs of an experiment measured: plain values, from which every claim is computed.
#ifndef BRAID_REPRODUCE_ARM_RESULT_H_
#define BRAID_REPRODUCE_ARM_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/pipeline.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// The arms of the experiment; reproduction_plan.h says what each is.
namespace arm {
inline constexpr char kDense[] = "dense";
inline constexpr char kMoe[] = "moe";
inline constexpr char kPrefix[] = "prefix";
inline constexpr char kExpertChoiceSegment[] = "expert-choice-segment";
inline constexpr char kExpertChoiceToken[] = "expert-choice-token";
inline constexpr char kNoWarmup[] = "no-warmup";
inline constexpr char kNoWarmup16[] = "no-warmup-experts-16";
inline constexpr char kExperts4[] = "experts-4";
inline constexpr char kExperts16[] = "experts-16";
inline constexpr char kSegment32[] = "segments-32";
inline constexpr char kSegment128[] = "segments-128";
inline constexpr char kUniformFirst[] = "uniform-first-segment";
}  // namespace arm

// Whose weights merged the experts while held-out text was scored.
enum class ScoredRouting {
  // The routers' own, a decision a segment, as in training.
  kSegment,
  // The routers' own, one decision a window.
  kPrompt,
  // The mean of the routers' weights over all held-out segments, by layer.
  kAverage,
  // 1 / E.
  kUniform,
  // The mean of the routers' weights over the next domain in order of name.
  kOtherDomain,
};

// Losses are sums of nats.
struct WindowLoss {
  double first_loss = 0;
  int64_t first_tokens = 0;
  double later_loss = 0;
  int64_t later_tokens = 0;
};

struct DomainWindows {
  std::string domain = {};
  // In the order of the held-out split, which is that of the sources.
  std::vector<WindowLoss> windows = {};
};

// One scoring of the whole held-out split.
struct HeldoutScore {
  ScoredRouting routing = ScoredRouting::kSegment;
  // Positions of a window that are "first".
  int32_t first_positions = 0;
  std::vector<DomainWindows> domains = {};
};

// Mean weights of the model's own routing [layer][expert].
struct DomainWeights {
  std::string domain = {};
  std::vector<std::vector<double>> layers = {};
};

// One run: an arm of the experiment on one order of the documents with one seed.
struct ArmResult {
  std::string arm = {};
  v1::OrderMode order = v1::SIMILARITY;
  uint64_t seed = 0;
  // Experts of a layer; 1: dense.
  int32_t num_experts = 1;
  std::vector<HeldoutScore> heldout = {};
  // In order of step.
  std::vector<v1::StepMetrics> metrics = {};
  // Of kSegment; empty for a dense model.
  std::vector<DomainWeights> routing = {};
};

// Whose weights merged the experts.
ScoredRouting ScoredRoutingOf(const v1::Evaluation& evaluation);
// The scoring of an evaluation that was asked for its windows.
HeldoutScore HeldoutScoreOf(const v1::Evaluation& evaluation);
std::vector<DomainWeights> DomainWeightsOf(const v1::Evaluation& evaluation);

// Fills heldout, and routing with the weights of the model's own routing by segment.
void AddEvaluations(const std::vector<v1::Evaluation>& evaluations, ArmResult* result);

// nullptr when there is none.
const HeldoutScore* FindScore(const ArmResult& result, ScoredRouting routing,
                              int32_t first_positions);

}  // namespace braid

#endif  // BRAID_REPRODUCE_ARM_RESULT_H_
