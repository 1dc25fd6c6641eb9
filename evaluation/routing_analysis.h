// Analyzes expert routing on held-out text. See docs/analysis.md.
#ifndef BRAID_EVALUATION_ROUTING_ANALYSIS_H_
#define BRAID_EVALUATION_ROUTING_ANALYSIS_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "model/language_model.h"

namespace braid::v1 {
class AnalyzeRoutingEvent;
class AnalyzeRoutingRequest;
class RoutingAnalysis;
}  // namespace braid::v1

namespace braid {

struct RoutingAnalysisOptions {
  // Layers with experts, ascending; see LayersToAnalyze.
  std::vector<int> layers;
  // 0 means all.
  int64_t max_windows_per_domain = 0;
  int texts_per_expert = 3;
  // Converts tokens to text.
  std::function<std::string(std::span<const int32_t>)> decode;
};

// Returns the requested layers, ascending; all layers with experts when none is requested.
// FailedPrecondition for a dense model; InvalidArgument for a layer that is requested twice and,
// naming the layers that have experts, for one that has none or does not exist.
absl::StatusOr<std::vector<int>> LayersToAnalyze(const v1::ModelConfig& resolved,
                                                 std::vector<int> asked);

// Routes every held-out window once, as evaluation does (MergeMode::kSegment). The result lacks
// model name, step and utilization. Memory does not depend on the amount of text.
absl::StatusOr<v1::RoutingAnalysis> AnalyzeModelRouting(
    LanguageModel& model, const std::filesystem::path& dataset_dir,
    const RoutingAnalysisOptions& options,
    const std::function<void(int64_t done, int64_t total)>& progress);

// Handles the request; `request.model` is a run or checkpoint directory. The last event carries the
// result, without a page. Utilization is that of the checkpoint's run, up to its step.
absl::Status AnalyzeRouting(const v1::AnalyzeRoutingRequest& request,
                            const std::function<void(const v1::AnalyzeRoutingEvent&)>& emit);

}  // namespace braid

#endif  // BRAID_EVALUATION_ROUTING_ANALYSIS_H_
