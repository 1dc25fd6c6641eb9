// Measures what the outputs of a model's layers encode, with probes on sentences of a text, and
// which layers its mixing layers choose for tasks (MoLEx, arXiv 2503.11144, section 4). See
// docs/analysis.md.
#ifndef BRAID_EVALUATION_LAYER_ANALYSIS_H_
#define BRAID_EVALUATION_LAYER_ANALYSIS_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evaluation/document_reader.h"
#include "evaluation/probing/probe_sentences.h"
#include "model/language_model.h"

namespace braid::v1 {
class AnalyzeLayersEvent;
class AnalyzeLayersRequest;
class ProbeResult;
}  // namespace braid::v1

namespace braid {

struct LayerProbeOptions {
  int hidden_units = 0;
  uint64_t seed = 0;
  // Classifiers that are trained at the same time; 0 means one for each core.
  int num_threads = 0;
  // Returns the tokens of a sentence; the first `skipped` of them are not part of the mean output.
  std::function<std::vector<int32_t>(std::string_view)> encode;
  int64_t skipped = 0;
};

// Probes the embedding and every layer. Memory: num_layers + 1 vectors of d_model floats for each
// sentence, and one more for each classifier that is trained at the same time. Errors are those of
// MeanLayerOutputs.
absl::StatusOr<v1::ProbeResult> ProbeLayers(
    LanguageModel& model, const ProbeSentences& sentences, const LayerProbeOptions& options,
    const std::function<void(int64_t done, int64_t total)>& progress);

// Handles the request; `request.model` is a run or checkpoint directory. The last event carries the
// result, without a page. InvalidArgument for fields out of range, an unknown probe, a text with
// too few sentences or without spaces between words, and tasks of a model that does not mix layers.
absl::Status AnalyzeLayers(const v1::AnalyzeLayersRequest& request, const DocumentReader& reader,
                           const std::function<void(const v1::AnalyzeLayersEvent&)>& emit);

}  // namespace braid

#endif  // BRAID_EVALUATION_LAYER_ANALYSIS_H_
