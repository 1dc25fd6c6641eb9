// Merges the experts of a model with the same weights for all segments, which gives a dense model.
#ifndef BRAID_MODEL_MERGED_MODEL_H_
#define BRAID_MODEL_MERGED_MODEL_H_

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "model/language_model.h"

namespace braid {

// Returns a new model of DenseCounterpart(model.config()): shared parameters equal those of
// `model`, each FFN matrix of a layer with experts is their sum weighted by that layer's row
// of `weights`, [MoE layer][E], layers in the order of MoeLayers. It computes what `model`
// would if its routers gave these weights to every segment (arXiv 2405.03133, equation 2).
// Weights may be any numbers; those of routers sum to 1.
// InvalidArgument for other numbers of layers or weights than the model has, and for a model
// that merges no experts (DENSE, expert choice).
absl::StatusOr<std::unique_ptr<LanguageModel>> MergeExperts(
    LanguageModel& model, std::span<const std::vector<double>> weights);

// Computes sum_i weights[i] * experts[i]. `experts` holds weights.size() matrices one after the
// other, each of merged.size() elements.
void MergeMatrices(std::span<const float> experts, std::span<const float> weights,
                   std::span<float> merged);

}  // namespace braid

#endif  // BRAID_MODEL_MERGED_MODEL_H_
