#include "evaluation/routing_analysis.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/analysis_frame.h"
#include "evaluation/heldout_routing.h"
#include "evaluation/heldout_windows.h"
#include "evaluation/segment_text.h"
#include "evaluation/utilization.h"
#include "formats/packed_dataset.h"
#include "formats/tokenizer.h"
#include "model/config/head_config.h"
#include "model/config/model_config.h"
#include "runs/model_path.h"
#include "runs/run_directory.h"
#include "trainer/data_loader.h"
#include "trainer/expert_similarity.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRoutingAnalysisTokensPerPass = 4096;
constexpr int kTextsPerExpert = 3, kMaxTextsPerExpert = 100;

absl::Status NoExperts(const v1::ModelConfig& resolved, int layer) {
  const int num_layers = resolved.num_layers();
  const std::string what = layer < 0 || layer >= num_layers
                               ? absl::StrCat("does not exist (there are 0 to ", num_layers - 1)
                               : "has no experts (it is dense";
  return absl::InvalidArgumentError(
      absl::StrCat("layers: layer ", layer, " ", what,
                   "); layers with experts: ", absl::StrJoin(MoeLayers(resolved), ", ")));
}

// Routes the windows of one domain and adds them to every layer.
absl::Status RouteDomain(LanguageModel& model, const HeldoutDomain& domain, int number,
                         int64_t per_pass, std::vector<HeldoutRouting>* layers, SegmentTexts* texts,
                         const std::function<void(int64_t)>& advance) {
  for (int64_t begin = 0; begin < domain.num_windows; begin += per_pass) {
    std::vector<int64_t> windows(std::min(per_pass, domain.num_windows - begin));
    std::iota(windows.begin(), windows.end(), begin);
    ASSIGN_OR_RETURN(const Batch batch, domain.windows.Load(windows));
    ASSIGN_OR_RETURN(const ForwardResult result,
                     model.Evaluate(batch.inputs, batch.targets, batch.batch_size,
                                    MergeMode::kSegment, /*want_routing=*/true));
    for (HeldoutRouting& layer : *layers) {
      const auto routed =
          std::ranges::find(result.routing, layer.layer(), &LayerRoutingWeights::layer);
      layer.Add(number, begin, batch, *routed);
    }
    texts->CountDocuments(number, batch);
    advance(batch.batch_size);
  }
  return absl::OkStatus();
}

absl::Status AddTexts(const TopActivatingSegments& top_activating, const SegmentTexts& texts,
                      int num_experts, v1::LayerRoutingAnalysis* layer) {
  for (int expert = 0; expert < num_experts; ++expert) {
    v1::ExpertTexts* of_expert = layer->add_texts();
    of_expert->set_expert(expert);
    for (const TopActivatingSegment& segment : top_activating.Of(expert)) {
      ASSIGN_OR_RETURN(*of_expert->add_texts(), texts.Describe(segment));
    }
  }
  return absl::OkStatus();
}

absl::Status AddUtilization(const ModelPath& path, int64_t step, std::span<const int> layers,
                            v1::RoutingAnalysis* analysis) {
  if (!path.run.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<v1::StepMetrics> metrics,
                   RunDirectory(*path.run).ReadMetrics(0));
  for (v1::UtilizationPoint& point : UtilizationOf(metrics, layers, step)) {
    *analysis->add_utilization() = std::move(point);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int>> LayersToAnalyze(const v1::ModelConfig& resolved,
                                                 std::vector<int> asked) {
  if (!UsesExperts(resolved)) {
    return absl::FailedPreconditionError(
        "the model has no experts, so there is no routing to analyze; expected one trained with "
        "experts (its checkpoints are dense until the dense warm-up ends)");
  }
  if (asked.empty()) return MoeLayers(resolved);
  std::ranges::sort(asked);
  if (const auto repeated = std::ranges::adjacent_find(asked); repeated != asked.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("layers: layer ", *repeated, " is listed twice; list each layer once"));
  }
  const std::vector<int> with_experts = MoeLayers(resolved);
  for (const int layer : asked) {
    if (!std::ranges::binary_search(with_experts, layer)) return NoExperts(resolved, layer);
  }
  return asked;
}

absl::StatusOr<v1::RoutingAnalysis> AnalyzeModelRouting(
    LanguageModel& model, const fs::path& dataset_dir, const RoutingAnalysisOptions& options,
    const std::function<void(int64_t done, int64_t total)>& progress) {
  const v1::ModelConfig& config = model.config();
  const int num_experts = config.routing().num_experts();
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(dataset_dir));
  RETURN_IF_ERROR(CheckFits(config, info, dataset_dir));
  ASSIGN_OR_RETURN(const std::vector<HeldoutDomain> domains,
                   OpenDomains(dataset_dir, info, options.max_windows_per_domain));
  const int num_domains = static_cast<int>(domains.size());
  std::vector<HeldoutRouting> layers;
  for (const int layer : options.layers) {
    layers.emplace_back(config, layer, num_domains, options.texts_per_expert);
  }
  int64_t done = 0, total = 0;
  for (const HeldoutDomain& domain : domains) total += domain.num_windows;
  const auto advance = [&](int64_t windows) { progress(done += windows, total); };
  SegmentTexts texts(config, info.eos_id, domains, options.decode);
  const int64_t per_pass =
      std::max<int64_t>(kRoutingAnalysisTokensPerPass / info.sequence_length, 1);
  for (int d = 0; d < num_domains; ++d) {
    RETURN_IF_ERROR(RouteDomain(model, domains[d], d, per_pass, &layers, &texts, advance));
  }
  v1::RoutingAnalysis analysis;
  analysis.set_num_experts(num_experts);
  for (const HeldoutRouting& layer : layers) {
    v1::LayerRoutingAnalysis* result = analysis.add_layers();
    *result = layer.Summarize(info.domains);
    const std::vector<double> cosines =
        PairwiseCosines(ExpertMatrices(model, layer.layer()), num_experts);
    result->mutable_expert_similarity()->Assign(cosines.begin(), cosines.end());
    RETURN_IF_ERROR(AddTexts(layer.top_activating(), texts, num_experts, result));
  }
  return analysis;
}

absl::Status AnalyzeRouting(const v1::AnalyzeRoutingRequest& request,
                            const std::function<void(const v1::AnalyzeRoutingEvent&)>& emit) {
  if (request.texts_per_expert() < 0 || request.texts_per_expert() > kMaxTextsPerExpert) {
    return absl::InvalidArgumentError(absl::StrCat("texts_per_expert: got ",
                                                   request.texts_per_expert(), ", expected 0 (",
                                                   kTextsPerExpert, ") to ", kMaxTextsPerExpert));
  }
  SetModelThreads(request.num_threads());
  ASSIGN_OR_RETURN(const ModelPath path, FindModel(request.model(), request.strict()));
  ASSIGN_OR_RETURN(
      const std::vector<int> layers,
      LayersToAnalyze(path.state.model, {request.layers().begin(), request.layers().end()}));
  ASSIGN_OR_RETURN(const fs::path dataset_dir, AnalyzedDataset(request.dataset_dir(), path));
  ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(dataset_dir / "tokenizer.model"));
  RETURN_IF_ERROR(CheckPredictsTokens(path.state.model, path.checkpoint.string()));
  ASSIGN_OR_RETURN(const auto model, LoadModel(path.checkpoint, path.state.use_average));
  const RoutingAnalysisOptions options = {
      .layers = layers,
      .max_windows_per_domain = request.max_windows_per_domain(),
      .texts_per_expert =
          request.texts_per_expert() > 0 ? request.texts_per_expert() : kTextsPerExpert,
      .decode = [&](std::span<const int32_t> tokens) { return tokenizer->Decode(tokens); }};
  int64_t windows = 0;
  const auto progress = EmitProgress(emit);
  ASSIGN_OR_RETURN(
      v1::RoutingAnalysis analysis,
      AnalyzeModelRouting(*model, dataset_dir, options,
                          [&](int64_t done, int64_t total) { progress(done, windows = total); }));
  RETURN_IF_ERROR(AddUtilization(path, path.source.step(), layers, &analysis));
  EmitResult(request.model(), path, windows, std::move(analysis), emit);
  return absl::OkStatus();
}

}  // namespace braid
