#include "model/routing/merging_routers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "model/config/document_config.h"
#include "model/kernels/phase_times.h"
#include "model/kernels/soft_merge.h"
#include "model/routing/document_segments.h"
#include "model/routing/routing_weights.h"
#include "model/routing/segment_incremental_ffn.h"

namespace braid {
namespace {

// Applies SoftMergeFfn to the segments x [B, N, S, D] with weights [B, N, E] -> [B, N * S, D].
at::Tensor MergeSegments(const at::Tensor& x, const at::Tensor& weights,
                         const SoftExperts& experts) {
  return SoftMergeFfn(x.flatten(0, 1), weights.flatten(0, 1), experts)
      .view({x.size(0), x.size(1) * x.size(2), x.size(3)});
}

// Applies SoftMergeFfn to segments of unequal lengths: x [B, L, D] and one row of weights per
// segment [N, E] -> [B, L, D].
at::Tensor MergeUnequalSegments(const at::Tensor& x, const at::Tensor& weights,
                                const SoftExperts& experts, const DocumentSegments& segments) {
  const at::Tensor rows = x.flatten(0, 1);
  std::vector<at::Tensor> parts;
  for (const DocumentSegments::Group& group : segments.groups) {
    const at::Tensor y =
        SoftMergeFfn(GatherSegments(rows, group), weights.index_select(0, group.segments), experts);
    parts.push_back(y.flatten(0, 1));
  }
  return at::cat(parts).index_select(0, segments.places).view(x.sizes());
}

// Prompt mode of both routers: one merged FFN per sequence.
RoutedFfn AddPromptFfn(const at::Tensor& h, const at::Tensor& x, const FfnWeights& w,
                       const v1::RoutingConfig& config) {
  const at::Tensor weights = PrefixWeights(x, w.router, config);
  const int64_t decisions = CutsAtDocuments(config) ? x.size(1) : NumSegments(x.size(1), config);
  const at::Tensor rows =
      weights.detach().unsqueeze(1).expand({x.size(0), decisions, w.router.size(0)});
  return {h + SoftMergeFfn(x, weights, w.experts()), rows};
}

class MergingRouter : public Router {
 public:
  explicit MergingRouter(const v1::ModelConfig& model) : model_(model), config_(model.routing()) {}

  std::unique_ptr<IncrementalFfn> Incremental(const FfnWeights& weights, MergeMode mode,
                                              std::optional<uint64_t>) const override {
    return SegmentIncrementalFfn(model_, weights, mode);
  }

 protected:
  const v1::ModelConfig& model_;
  const v1::RoutingConfig& config_;
};

class CausalSegmentRouter final : public MergingRouter {
 public:
  using MergingRouter::MergingRouter;

  RoutedFfn AddFfn(const at::Tensor& h, const at::Tensor& x, const FfnWeights& w, MergeMode mode,
                   const RoutingContext& context) const override {
    if (mode == MergeMode::kPrompt) return AddPromptFfn(h, x, w, config_);
    if (CutsAtDocuments(config_)) return AddByDocument(h, x, w, context);
    // Algorithm 1 for a whole batch at once: the B * N segments are independent given their
    // weights, because attention has already mixed positions, so they form one batch of the fused
    // kernel.
    const at::Tensor weights = Weights(x, w.router);
    const int64_t length = x.size(1), s = config_.segment_length();
    const int64_t filling = weights.size(1) * s - length;
    // The padding of the last segment is cut off again below, and no segment routes on it.
    const at::Tensor filled = filling == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, filling});
    const at::Tensor y =
        MergeSegments(filled.view({x.size(0), -1, s, x.size(2)}), weights, w.experts());
    return {h + y.narrow(1, 0, length), weights.detach()};
  }

 private:
  at::Tensor Weights(const at::Tensor& x, const at::Tensor& router) const {
    const ScopedPhase phase(Phase::kRouter);
    return SegmentWeights(x, router, config_);
  }

  // The same with segments that begin with documents. Reports a row of weights per position.
  RoutedFfn AddByDocument(const at::Tensor& h, const at::Tensor& x, const FfnWeights& w,
                          const RoutingContext& context) const {
    BRAID_CHECK(context.segments != nullptr) << "no segments of the batch";
    const DocumentSegments& segments = *context.segments;
    const at::Tensor weights = UnequalWeights(x, w.router, segments);
    const at::Tensor rows = weights.detach().index_select(0, segments.segments);
    return {h + MergeUnequalSegments(x, weights, w.experts(), segments),
            rows.view({x.size(0), x.size(1), -1})};
  }

  // Returns one decision per segment, [N, E]. As in SegmentWeights, a segment routes on the mean of
  // the one before, and the first of a sequence, or of a document with reset_at_documents, has
  // FirstSegmentWeights.
  at::Tensor UnequalWeights(const at::Tensor& x, const at::Tensor& router,
                            const DocumentSegments& segments) const {
    const ScopedPhase phase(Phase::kRouter);
    const at::Tensor own = RoutingWeights(SegmentMeans(x.flatten(0, 1), segments), router, config_);
    return at::where(segments.first, FirstSegmentWeights(own, config_),
                     own.index_select(0, segments.before));
  }
};

class PrefixRouter final : public MergingRouter {
 public:
  using MergingRouter::MergingRouter;

  RoutedFfn AddFfn(const at::Tensor& h, const at::Tensor& x, const FfnWeights& w, MergeMode mode,
                   const RoutingContext&) const override {
    if (mode == MergeMode::kPrompt) return AddPromptFfn(h, x, w, config_);
    const int64_t length = x.size(1), cut = std::min<int64_t>(config_.segment_length(), length);
    const Weights weights = Decide(x, w.router);
    at::Tensor y = SoftMergeFfn(x.narrow(1, 0, cut).contiguous(), weights.first, w.experts());
    if (cut < length) {
      const at::Tensor later = x.narrow(1, cut, length - cut).contiguous();
      y = at::cat({y, SoftMergeFfn(later, weights.later, w.experts())}, 1);
    }
    return {h + y, Rows(weights, NumSegments(length, config_))};
  }

 private:
  struct Weights {
    at::Tensor first, later;  // [B, E]
  };

  Weights Decide(const at::Tensor& x, const at::Tensor& router) const {
    const ScopedPhase phase(Phase::kRouter);
    const at::Tensor later = PrefixWeights(x, router, config_);
    return {FirstSegmentWeights(later, config_), later};
  }

  static at::Tensor Rows(const Weights& weights, int64_t segments) {
    const at::Tensor later = weights.later.detach().unsqueeze(1);
    return at::cat(
        {weights.first.unsqueeze(1), later.expand({later.size(0), segments - 1, later.size(2)})},
        1);
  }
};

}  // namespace

std::unique_ptr<const Router> NewCausalSegmentRouter(const v1::ModelConfig& config) {
  return std::make_unique<CausalSegmentRouter>(config);
}

std::unique_ptr<const Router> NewPrefixRouter(const v1::ModelConfig& config) {
  return std::make_unique<PrefixRouter>(config);
}

}  // namespace braid
