#include "model/routing/segment_incremental_ffn.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "model/config/document_config.h"
#include "model/config/model_config.h"
#include "model/config/segment_starts.h"
#include "model/kernels/product.h"
#include "model/kernels/soft_merge.h"
#include "model/kernels/swiglu.h"
#include "model/routing/expert_choice.h"
#include "model/routing/routing_weights.h"
#include "model/routing/token_choice.h"

namespace braid {
namespace {

std::vector<float> HostValues(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU, at::kFloat).contiguous();
  const float* const data = host.data_ptr<float>();
  return std::vector<float>(data, data + host.numel());
}

// The sequence is a series of decisions (see DecisionAt); between two of them the layer is a plain
// dense FFN with matrices ffn_. Merging costs as much as the FFN of E tokens, so it happens only
// when the number of the decision changes. Invariants: decision_ is the number that ffn_ was made
// from, and inputs_ holds the FFN inputs of every segment from which a later decision is made, so
// that after a rewind to any position the decision there can be made again. segments_ has the
// positions passed so far.
class SegmentIncremental final : public IncrementalFfn {
 public:
  SegmentIncremental(const v1::ModelConfig& model, const FfnWeights& weights, MergeMode mode)
      : config_(model.routing()), weights_(weights), mode_(mode), segments_(model) {}

  at::Tensor AddFfn(const at::Tensor& h, const at::Tensor& x, const at::Tensor& tokens) override {
    segments_.Append(HostTokens(tokens));
    std::vector<at::Tensor> parts;
    for (int64_t begin = 0; begin < x.size(0);) {
      const int64_t count = std::min(x.size(0) - begin, EndOfDecision(position_) - position_);
      parts.push_back(AddDecided(h.narrow(0, begin, count), x.narrow(0, begin, count)));
      begin += count;
    }
    return parts.size() == 1 ? parts[0] : at::cat(parts);
  }

  at::Tensor AddBranchFfn(const at::Tensor& h, const at::Tensor& x,
                          const at::Tensor& tokens) const override {
    if (CutsAtDocuments(config_)) return AddBranchesInTurn(h, x, tokens);
    const int64_t length = x.size(1), shared = std::min(length, DecidedFor(position_));
    std::vector<at::Tensor> parts = {AddSharedFfn(h.narrow(1, 0, shared), x.narrow(1, 0, shared))};
    for (int64_t start = shared; start < length;) {
      const int64_t n = std::min(length - start, DecidedFor(position_ + start));
      const at::Tensor routing = RoutingWeights(SegmentMeans(x, start), weights_.router, config_);
      parts.push_back(h.narrow(1, start, n) + OwnFfn(x.narrow(1, start, n).contiguous(), routing));
      start += n;
    }
    return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
  }

  // Decision 0 is valid for a prompt that begins with exactly the tokens it was made from. All
  // later decisions follow from whole segments before them, which are unchanged.
  int64_t Reusable(int64_t common, int64_t prompt) const override {
    if (BeginsUniform()) return common;
    int64_t deciding = prompt;
    if (mode_ != MergeMode::kPrompt) {
      // The first segment may have ended before its full length.
      const int64_t end =
          segments_.starts().size() > 1 ? segments_.starts()[1] : config_.segment_length();
      deciding = std::min<int64_t>(prompt, end);
    }
    return deciding == first_.length && deciding <= common ? common : 0;
  }

  // ffn_ may now belong to a later segment. AddFfn compares the number of its decision and decides
  // again when it differs. Segments that will begin elsewhere get decisions of their own.
  void Rewind(int64_t position) override {
    position_ = position;
    segments_.Truncate(position);
    if (decision_ >= std::ssize(segments_.starts())) decision_ = -1;
  }

  // Matrices and means are replaced, never changed; the inputs of a segment are written in place.
  std::unique_ptr<IncrementalFfn> Clone() const override {
    auto clone = std::make_unique<SegmentIncremental>(*this);
    for (at::Tensor& inputs : clone->inputs_) inputs = inputs.clone();
    return clone;
  }

  ExpertMixture Mixture() const override { return ffn_.mixture; }

 private:
  static std::vector<int32_t> HostTokens(const at::Tensor& tokens) {
    const at::Tensor host = tokens.to(at::kCPU, at::kInt).contiguous();
    return {host.data_ptr<int32_t>(), host.data_ptr<int32_t>() + host.numel()};
  }

  struct Ffn {
    at::Tensor gate_up, down;  // [2F, D] and [F, D]
    ExpertMixture mixture;

    // Returns h + FFN(x) for h and x [n, D].
    at::Tensor Add(const at::Tensor& h, const at::Tensor& x) const {
      return AddProduct(h, SwiGluForward(Product(x, gate_up.t())), down);
    }
  };

  // The inputs of decision 0.
  struct FirstInputs {
    int64_t length = 0;
    at::Tensor mean;  // [D]
  };

  // Returns h + FFN(x) for the next positions, which share a decision.
  at::Tensor AddDecided(const at::Tensor& h, const at::Tensor& x) {
    if (position_ == 0) first_ = {x.size(0), x.mean(0)};
    if (DecisionAt(position_) != decision_) {
      ffn_ = Decide(DecisionAt(position_));
      decision_ = DecisionAt(position_);
    }
    KeepInputs(x);
    position_ += x.size(0);
    return ffn_.Add(h, x);
  }

  // AddBranchFfn for segments whose starts depend on the branch.
  at::Tensor AddBranchesInTurn(const at::Tensor& h, const at::Tensor& x,
                               const at::Tensor& tokens) const {
    std::vector<at::Tensor> branches;
    for (int64_t c = 0; c < x.size(0); ++c) {
      branches.push_back(Clone()->AddFfn(h[c], x[c], tokens[c]));
    }
    return at::stack(branches);
  }

  bool BeginsUniform() const {
    return mode_ != MergeMode::kPrompt && config_.first_segment() == v1::UNIFORM;
  }

  bool IsLast(int64_t decision) const {
    return mode_ == MergeMode::kPrompt || (config_.router() == v1::PREFIX && decision == 1);
  }

  // Returns the number of the decision in force at `position`. Decision 0 is that of the first
  // segment or of the prompt; decision n > 0 is made from segment n - 1.
  int64_t DecisionAt(int64_t position) const {
    if (mode_ == MergeMode::kPrompt) return 0;
    const int64_t segment = CutsAtDocuments(config_) ? segments_.SegmentAt(position)
                                                     : position / config_.segment_length();
    return config_.router() == v1::PREFIX ? std::min<int64_t>(segment, 1) : segment;
  }

  // Returns the end of the decision in force at `position`, among the positions of segments_.
  int64_t EndOfDecision(int64_t position) const {
    if (IsLast(DecisionAt(position))) return segments_.position();
    const auto next = static_cast<size_t>(segments_.SegmentAt(position)) + 1;
    return next < segments_.starts().size() ? segments_.starts()[next] : segments_.position();
  }

  // Returns how many positions, from `position` on, share its decision, for segments of equal
  // lengths.
  int64_t DecidedFor(int64_t position) const {
    if (IsLast(DecisionAt(position))) return std::numeric_limits<int64_t>::max();
    return config_.segment_length() - position % config_.segment_length();
  }

  // Returns the routing weights [1, E] of a decision.
  at::Tensor Weights(int64_t decision) const {
    const bool resets = config_.reset_at_documents() && mode_ != MergeMode::kPrompt &&
                        decision > 0 && segments_.BeginsDocument(decision);
    if (decision > 0 && !resets) {
      const std::span<const int64_t> starts = segments_.starts();
      // Branches make a decision before the sequence has the first position of its segment.
      const int64_t end = decision < std::ssize(starts) ? starts[decision] : segments_.position();
      const at::Tensor mean =
          inputs_[decision - 1].narrow(0, 0, end - starts[decision - 1]).mean(0, /*keepdim=*/true);
      return RoutingWeights(mean, weights_.router, config_);
    }
    if (BeginsUniform()) {
      return UniformWeights({1, weights_.router.size(0)}, first_.mean.options());
    }
    return RoutingWeights(first_.mean.unsqueeze(0), weights_.router, config_);
  }

  Ffn Decide(int64_t decision) const {
    const at::Tensor routing = Weights(decision);
    if (MergesExperts(config_)) {
      const MergedFfn merged = MergeExperts(routing, weights_.experts());
      return {merged.gate_up[0], merged.down[0], {HostValues(routing), HostValues(routing)}};
    }
    const at::Tensor chosen = BestExperts(routing);
    const int64_t best = chosen[0].nonzero().item<int64_t>();
    return {weights_.gate_up.select(1, best).flatten(0, 1),
            weights_.down[best] * routing[0][best],
            {HostValues(chosen), HostValues(chosen * routing)}};
  }

  // Saves the FFN inputs that later decisions need.
  void KeepInputs(const at::Tensor& x) {
    if (IsLast(decision_)) return;
    const auto segment = static_cast<size_t>(segments_.SegmentAt(position_));
    if (segment == inputs_.size()) {
      inputs_.push_back(at::empty({config_.segment_length(), x.size(1)}, x.options()));
    }
    inputs_[segment].narrow(0, position_ - segments_.starts()[segment], x.size(0)).copy_(x);
  }

  // Returns the FFN output of the first positions of all branches, h and x [C, n, D], which share
  // the decision of the sequence.
  at::Tensor AddSharedFfn(const at::Tensor& h, const at::Tensor& x) const {
    const int64_t due = DecisionAt(position_);
    const Ffn ffn = due == decision_ ? ffn_ : Decide(due);
    return ffn.Add(h.reshape({-1, h.size(2)}), x.reshape({-1, x.size(2)})).view(h.sizes());
  }

  // Returns the mean inputs [C, D] of the segment that ends where branches x [C, T, D] have `start`
  // positions. The segment may begin in the sequence itself.
  at::Tensor SegmentMeans(const at::Tensor& x, int64_t start) const {
    const int64_t length = config_.segment_length(), own = std::min(start, length);
    const at::Tensor sum = x.narrow(1, start - own, own).sum(1);
    if (own == length) return sum / length;
    const at::Tensor& begun = inputs_[(position_ + start) / length - 1];
    return (sum + begun.narrow(0, 0, length - own).sum(0)) / length;
  }

  // Applies to each branch its own FFN: x [C, n, D] and routing [C, E] -> [C, n, D].
  at::Tensor OwnFfn(const at::Tensor& x, const at::Tensor& routing) const {
    if (MergesExperts(config_)) return SoftMergeFfn(x, routing, weights_.experts());
    const at::Tensor gates = routing.repeat_interleave(x.size(1), 0);
    return TokenChoiceFfn(x.flatten(0, 1), MaskedChoice(gates, BestExperts(gates)),
                          weights_.experts())
        .view(x.sizes());
  }

  const v1::RoutingConfig& config_;
  const FfnWeights weights_;
  const MergeMode mode_;
  SegmentStarts segments_;
  int64_t position_ = 0;
  int64_t decision_ = -1;  // the decision that ffn_ was made from
  Ffn ffn_;
  FirstInputs first_;
  std::vector<at::Tensor> inputs_;  // [S, D] for every segment from which a decision is made
};

}  // namespace

std::unique_ptr<IncrementalFfn> SegmentIncrementalFfn(const v1::ModelConfig& config,
                                                      const FfnWeights& weights, MergeMode mode) {
  return std::make_unique<SegmentIncremental>(config, weights, mode);
}

}  // namespace braid
