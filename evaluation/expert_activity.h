// Measures how much of the hidden activations of an FFN the experts hold that tokens choose (EMoE,
// arXiv 2310.10908, section 5), in models with experts and in dense models that are split for the
// measurement.
#ifndef BRAID_EVALUATION_EXPERT_ACTIVITY_H_
#define BRAID_EVALUATION_EXPERT_ACTIVITY_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/conversion.pb.h"
#include "evaluation/task_prompts.h"
#include "model/language_model.h"

namespace braid::v1 {
class AnalyzeExpertsEvent;
class AnalyzeExpertsRequest;
class ExpertActivity;
}  // namespace braid::v1

namespace braid {

struct ExpertActivityOptions {
  int num_experts = 0;
  // Experts that a token of a dense model chooses, by the mean of their units' gate_proj outputs
  // (up_proj of a GPT2); a model with experts chooses by its own router.
  int active_experts = 0;
  // The expert of each hidden unit by layer, [U]: the layers to measure.
  std::map<int, std::vector<int32_t>> expert_of;
  // 0 means all.
  int64_t max_windows_per_domain = 0;
  // Tasks whose prompts are measured after the windows, each as a domain.
  std::vector<TaskPrompts> tasks;
  // Seed of the choices of the gate RANDOM; without it all experts are used.
  std::optional<uint64_t> routing_seed = {};
};

// Returns the experts that a token uses: `routed`, where the model routes it, without the entries
// of -1; otherwise the `active` experts whose units have the highest means of `keys` [U], of which
// ties go to the lowest index. expert_of [U] is the expert of each unit.
std::vector<int32_t> ChosenExperts(std::span<const float> keys, std::span<const int32_t> routed,
                                   std::span<const int32_t> expert_of, int num_experts, int active);

// Returns the experts of the units: those of a model with TOKEN_CHOICE experts, or those that
// `split` makes of a dense one, 16 by keys where it does not say. `layers` may count from the last;
// when empty, all layers with experts, and of a dense model all. InvalidArgument for other routers,
// for copies and gates other than KEY_MEAN of a dense model, for a seed without the gate RANDOM,
// and those of ExpertSplitConfig. Sets the seed and the active experts of a model that has experts.
absl::StatusOr<ExpertActivityOptions> ExpertsToMeasure(LanguageModel& model, v1::ExpertSplit split,
                                                       const std::vector<int>& layers,
                                                       std::optional<uint64_t> routing_seed = {});

// Measures the held-out windows of a dataset. Random groups are four seeded random partitions of
// the units into as many groups of the same size, which tokens choose by the mean of their units'
// gate_proj outputs; figures are means over the partitions. The result lacks model name, step and
// source.
absl::StatusOr<v1::ExpertActivity> MeasureExpertActivity(
    LanguageModel& model, const std::filesystem::path& dataset_dir,
    const ExpertActivityOptions& options,
    const std::function<void(int64_t done, int64_t total)>& progress);

// Handles the request; `request.model` is a run or checkpoint directory. The last event carries the
// result. The drift of choices is that of a run's start and checkpoints (choice_drift.h), with the
// experts of the model that is analyzed.
absl::Status AnalyzeExperts(const v1::AnalyzeExpertsRequest& request,
                            const std::function<void(const v1::AnalyzeExpertsEvent&)>& emit);

}  // namespace braid

#endif  // BRAID_EVALUATION_EXPERT_ACTIVITY_H_
