#include "model/kernels/linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "model/kernels/gradient_accumulator.h"
#include "model/kernels/product.h"
#include "model/kernels/scratch.h"
#include "model/kernels/small_gemm.h"
#include "model/kernels/task_grain.h"
#include "model/kernels/token_panels.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// For fewer tokens it takes longer to lay out the matrix than to multiply with it.
constexpr int64_t kFewestTokens = kPanelTokens;
// BLAS is faster with larger ones, such as those of D 512.
constexpr int64_t kLargestMatrix = int64_t{1} << 17;
// Tokens whose gradients are laid out at a time.
constexpr int64_t kGradientTokens = 4096;

// Calls run(first token, number of tokens) for each panel, in parallel. A task has at least `grain`
// panels.
template <class Run>
void ForEachPanel(int64_t num_tokens, int64_t grain, Run run) {
  const std::vector<TokenPanel> panels = CutIntoPanels(/*num_segments=*/1, num_tokens);
  at::parallel_for(0, std::ssize(panels), grain, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) run(panels[p].first_token, panels[p].num_tokens);
  });
}

// Adds x M to `out` [T, columns], or sets it to x M, for x [T, depth] and a matrix M [depth,
// columns] in blocks of 64 columns.
void MultiplyPanels(const float* x, const float* blocks, int64_t num_tokens, int64_t depth,
                    int64_t columns, bool accumulate, float* out) {
  const int64_t num_blocks = NumBlocks(columns);
  const int64_t grain = GrainOf(kTaskProducts, kPanelTokens * depth * columns);
  ForEachPanel(num_tokens, grain, [&](int64_t first, int64_t tokens) {
    const auto product_of = [&](int64_t block) {
      const int64_t width = BlockWidth(columns, block);
      return SmallGemm({.rows = tokens,
                        .columns = width,
                        .depth = depth,
                        .left_stride = depth,
                        .right_stride = width,
                        .out_stride = columns,
                        .accumulate = accumulate});
    };
    const SmallGemm product = product_of(0), last = product_of(num_blocks - 1);
    for (int64_t block = 0; block < num_blocks; ++block) {
      const int64_t offset = block * kBlockFeatures;
      (block + 1 < num_blocks ? product : last)(x + first * depth, blocks + offset * depth,
                                                out + first * columns + offset);
    }
  });
}

// Adds x W^T to y, or sets y to it.
void MultiplyTransposed(const at::Tensor& x, const at::Tensor& weight, bool accumulate,
                        const at::Tensor& y) {
  const int64_t out = weight.size(0), in = weight.size(1);
  const float* const rows = weight.data_ptr<float>();
  Scratch scratch(weight.numel() + Scratch::kPadding);
  float* const blocks = scratch.Take(weight.numel());
  const int64_t grain = GrainOf(kTaskElements, kBlockFeatures * in);
  at::parallel_for(0, NumBlocks(out), grain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t offset = block * kBlockFeatures * in;
      ToColumns(rows + offset, BlockWidth(out, block), in, blocks + offset);
    }
  });
  MultiplyPanels(x.data_ptr<float>(), blocks, x.size(0), in, out, accumulate, y.data_ptr<float>());
}

// Returns dy W.
at::Tensor MultiplyPlain(const at::Tensor& dy, const at::Tensor& weight) {
  const int64_t out = weight.size(0), in = weight.size(1);
  Scratch scratch(weight.numel() + Scratch::kPadding);
  float* const blocks = scratch.Take(weight.numel());
  ToBlocks(weight.data_ptr<float>(), out, in, blocks);
  at::Tensor dx = at::empty({dy.size(0), in}, dy.options());
  MultiplyPanels(dy.data_ptr<float>(), blocks, dy.size(0), out, in, /*accumulate=*/false,
                 dx.data_ptr<float>());
  return dx;
}

// Adds dy^T x to the gradient of W [out, in] for a group of tokens. A work item owns 64 by 64
// elements and adds its panels in order, so the sums have a fixed order.
void AddWeightGradient(const float* x, const float* dy, int64_t num_tokens, int64_t in, int64_t out,
                       float* gradient) {
  Scratch scratch(num_tokens * (in + out) + 2 * Scratch::kPadding);
  float* const dy_columns = scratch.Take(num_tokens * out);
  float* const x_blocks = scratch.Take(num_tokens * in);
  const int64_t panels = GrainOf(kTaskElements, kPanelTokens * (in + out));
  ForEachPanel(num_tokens, panels, [&](int64_t first, int64_t tokens) {
    ToColumns(dy + first * out, tokens, out, dy_columns + first * out);
    ToBlocks(x + first * in, tokens, in, x_blocks + first * in);
  });
  const int64_t in_blocks = NumBlocks(in);
  const int64_t items = GrainOf(kTaskProducts, kBlockFeatures * kBlockFeatures * num_tokens);
  at::parallel_for(0, NumBlocks(out) * in_blocks, items, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / in_blocks * kBlockFeatures;
      const int64_t column = item % in_blocks * kBlockFeatures;
      const int64_t width = BlockWidth(in, item % in_blocks);
      for (int64_t first = 0; first < num_tokens; first += kPanelTokens) {
        const int64_t tokens = std::min(kPanelTokens, num_tokens - first);
        const SmallGemm product({.rows = BlockWidth(out, item / in_blocks),
                                 .columns = width,
                                 .depth = tokens,
                                 .left_stride = tokens,
                                 .right_stride = width,
                                 .out_stride = in,
                                 .accumulate = true});
        product(dy_columns + first * out + row * tokens, x_blocks + first * in + column * tokens,
                gradient + row * in + column);
      }
    }
  });
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& added) {
    const at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options());
    const bool adds = added.numel() > 0;
    if (adds) y.copy_(added.expand_as(y));
    MultiplyTransposed(x, weight, adds, y);
    // Only the gradient of W needs x.
    context->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    context->saved_data["x_has_gradient"] = x.requires_grad();
    context->saved_data["added_dimensions"] = adds && added.requires_grad() ? added.dim() : 0;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = incoming[0].contiguous();
    GradientAccumulator dweight;
    if (weight.requires_grad()) {
      dweight = AccumulatorOf(weight);
      for (int64_t first = 0; first < x.size(0); first += kGradientTokens) {
        AddWeightGradient(x.data_ptr<float>() + first * x.size(1),
                          dy.data_ptr<float>() + first * dy.size(1),
                          std::min(kGradientTokens, x.size(0) - first), x.size(1), dy.size(1),
                          dweight.buffer.data_ptr<float>());
      }
    }
    // Below the lowest trained layer nothing needs a gradient.
    const bool x_has_gradient = context->saved_data["x_has_gradient"].toBool();
    const at::Tensor dx = x_has_gradient ? MultiplyPlain(dy, weight) : at::Tensor();
    const int64_t dimensions = context->saved_data["added_dimensions"].toInt();
    return {dx, dweight.report, AddedGradient(dy, dimensions)};
  }
};

bool CanUsePanels(const at::Tensor& x, const at::Tensor& weight) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.size(0) >= kFewestTokens &&
         weight.is_contiguous() && weight.numel() <= kLargestMatrix && HasSmallGemm();
}

}  // namespace

at::Tensor Linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& added) {
  if (!CanUsePanels(x, weight)) {
    return added.defined() ? AddProduct(added, x, weight.t()) : Product(x, weight.t());
  }
  // Autograd functions accept no undefined tensor.
  return LinearFunction::apply(x.contiguous(), weight,
                               added.defined() ? added : at::empty({0}, x.options()));
}

at::Tensor AddedGradient(const at::Tensor& dy, int64_t dimensions) {
  if (dimensions == 0) return {};
  return dimensions == 1 ? dy.sum(0) : dy;
}

at::Tensor LinearInputGradient(const at::Tensor& dy, const at::Tensor& weight) {
  return CanUsePanels(dy, weight) ? MultiplyPlain(dy.contiguous(), weight) : at::mm(dy, weight);
}

}  // namespace braid
