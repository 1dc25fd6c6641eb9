#include "model/kernels/adapted_linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "base/splitmix.h"
#include "model/kernels/linear.h"
#include "model/kernels/swiglu.h"

namespace braid {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct RowRange {
  int64_t first, count;
};

// The arguments of the autograd function that are not tensors.
struct AdaptedShape {
  std::vector<RowRange> parts;
  double scale;
  InputDropout dropout;
};

// Returns m * x for x [T, in]. The mask is computed again in backward instead of being saved.
at::Tensor DropInputs(const at::Tensor& x, const InputDropout& dropout) {
  if (dropout.rate == 0) return x;
  const auto sequences = static_cast<int64_t>(dropout.keys.size());
  const int64_t rows = x.size(0), width = x.size(1);
  BRAID_CHECK(sequences > 0 && rows % sequences == 0) << rows << " " << sequences;
  const int64_t length = rows / sequences;
  const at::Tensor factors = at::empty({rows, width}, at::kFloat);
  float* const out = factors.data_ptr<float>();
  const float kept = static_cast<float>(1 / (1 - dropout.rate));
  at::parallel_for(0, rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const uint64_t key = dropout.keys[row / length];
      const auto first = static_cast<uint64_t>(row % length * width);
      for (int64_t j = 0; j < width; ++j) {
        const uint64_t bits = Scramble64(key + (first + static_cast<uint64_t>(j)) * kGolden64);
        out[row * width + j] = UnitInterval(bits) < dropout.rate ? 0 : kept;
      }
    }
  });
  return x * factors.to(x.device(), x.scalar_type());
}

// Returns W + scale B A.
at::Tensor AdaptedMatrix(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b,
                         const std::vector<RowRange>& parts, double scale) {
  const at::Tensor sum = weight.clone(at::MemoryFormat::Contiguous);
  const int64_t rank = b.size(1);
  int64_t at_row = 0, at_rank = 0;
  for (const RowRange& part : parts) {
    sum.narrow(0, part.first, part.count)
        .addmm_(b.narrow(0, at_row, part.count), a.narrow(0, at_rank, rank), 1, scale);
    at_row += part.count, at_rank += rank;
  }
  return sum;
}

// Returns whether to multiply with AdaptedMatrix instead of with W and the adapters. It takes less
// time for many tokens, and no more memory than they do.
bool AddsAdapters(const at::Tensor& x, const at::Tensor& weight, const InputDropout& dropout) {
  return dropout.rate == 0 && x.size(0) >= weight.size(0) + weight.size(1);
}

// a [parts * rank, in] and b [all rows, rank] hold the parts one after the other. AdaptedMatrix is
// computed again in backward instead of being saved.
class AdaptedLinearFunction : public torch::autograd::Function<AdaptedLinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b,
                            const AdaptedShape& shape) {
    const at::Tensor added = bias.numel() > 0 ? bias : at::Tensor();
    const at::Tensor inner = at::mm(DropInputs(x, shape.dropout), a.t());  // [T, parts * rank]
    at::Tensor y;
    if (AddsAdapters(x, weight, shape.dropout)) {
      y = Linear(x, AdaptedMatrix(weight, a, b, shape.parts, shape.scale), added);
    } else {
      y = Linear(x, weight, added);
      AddParts(inner, b, shape, y);
    }
    context->save_for_backward({x, weight, a, b, inner});
    context->saved_data["scale"] = shape.scale;
    context->saved_data["rate"] = shape.dropout.rate;
    // Saved integers are signed; the conversion back restores every bit of a key.
    context->saved_data["keys"] =
        std::vector<int64_t>(shape.dropout.keys.begin(), shape.dropout.keys.end());
    std::vector<int64_t> ranges;
    for (const RowRange& part : shape.parts) {
      ranges.insert(ranges.end(), {part.first, part.count});
    }
    context->saved_data["ranges"] = ranges;
    context->saved_data["bias_dimensions"] =
        bias.numel() > 0 && bias.requires_grad() ? bias.dim() : 0;
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &a = saved[2], &b = saved[3],
                     &inner = saved[4], &dy = incoming[0];
    const std::vector<RowRange> parts = SavedParts(context);
    const double scale = context->saved_data["scale"].toDouble();
    const InputDropout dropout = SavedDropout(context);
    const int64_t rank = b.size(1);
    const at::Tensor dinner = at::empty_like(inner), db = at::empty_like(b);
    int64_t at_row = 0, at_rank = 0;
    for (const RowRange& part : parts) {
      const at::Tensor rows = dy.narrow(1, part.first, part.count);
      at::Tensor inner_part = dinner.narrow(1, at_rank, rank);
      inner_part.copy_(at::mm(rows, b.narrow(0, at_row, part.count)));
      db.narrow(0, at_row, part.count).copy_(at::mm(rows.t(), inner.narrow(1, at_rank, rank)));
      at_row += part.count, at_rank += rank;
    }
    dinner.mul_(scale);
    db.mul_(scale);
    const at::Tensor da = at::mm(dinner.t(), DropInputs(x, dropout));
    at::Tensor dx;
    // Below the lowest trained layer nothing needs a gradient.
    if (x.requires_grad()) {
      if (AddsAdapters(x, weight, dropout)) {
        dx = LinearInputGradient(dy, AdaptedMatrix(weight, a, b, parts, scale));
      } else {
        dx = LinearInputGradient(dy, weight).add_(DropInputs(at::mm(dinner, a), dropout));
      }
    }
    const int64_t bias_dimensions = context->saved_data["bias_dimensions"].toInt();
    return {dx, at::Tensor(), AddedGradient(dy, bias_dimensions), da, db, at::Tensor()};
  }

 private:
  // Adds scale (m x) A_p^T B_p^T to the outputs of the parts, from the products with A.
  static void AddParts(const at::Tensor& inner, const at::Tensor& b, const AdaptedShape& shape,
                       at::Tensor& y) {
    const int64_t rank = b.size(1);
    int64_t at_row = 0, at_rank = 0;
    for (const RowRange& part : shape.parts) {
      y.narrow(1, part.first, part.count)
          .addmm_(inner.narrow(1, at_rank, rank), b.narrow(0, at_row, part.count).t(), 1,
                  shape.scale);
      at_row += part.count, at_rank += rank;
    }
  }

  static std::vector<RowRange> SavedParts(AutogradContext* context) {
    const std::vector<int64_t> ranges = context->saved_data["ranges"].toIntVector();
    std::vector<RowRange> parts;
    for (size_t i = 0; i < ranges.size(); i += 2) parts.push_back({ranges[i], ranges[i + 1]});
    return parts;
  }

  static InputDropout SavedDropout(AutogradContext* context) {
    const std::vector<int64_t> keys = context->saved_data["keys"].toIntVector();
    return {context->saved_data["rate"].toDouble(), {keys.begin(), keys.end()}};
  }
};

// a [parts, E, rank, columns] and b [parts, E, rows, rank]; part i is added to weights[kinds[i]].
class AdaptedExpertsFunction : public torch::autograd::Function<AdaptedExpertsFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weights,
                            const at::Tensor& a, const at::Tensor& b,
                            const std::vector<int64_t>& kinds, double scale) {
    at::Tensor sum = weights.clone();
    for (size_t i = 0; i < kinds.size(); ++i) {
      const auto part = static_cast<int64_t>(i);
      sum.select(0, kinds[i]).baddbmm_(b.select(0, part), a.select(0, part), 1, scale);
    }
    context->save_for_backward({a, b});
    context->saved_data["kinds"] = kinds;
    context->saved_data["scale"] = scale;
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list incoming) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &a = saved[0], &b = saved[1], &dsum = incoming[0];
    const std::vector<int64_t> kinds = context->saved_data["kinds"].toIntVector();
    const at::Tensor da = at::empty_like(a), db = at::empty_like(b);
    for (size_t i = 0; i < kinds.size(); ++i) {
      const auto part = static_cast<int64_t>(i);
      const at::Tensor d = dsum.select(0, kinds[i]);
      da.select(0, part).copy_(at::bmm(b.select(0, part).transpose(1, 2), d));
      db.select(0, part).copy_(at::bmm(d, a.select(0, part).transpose(1, 2)));
    }
    const double scale = context->saved_data["scale"].toDouble();
    return {at::Tensor(), da.mul_(scale), db.mul_(scale), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor AdaptedExperts(const at::Tensor& weights, const Adapters& adapters) {
  if (adapters.empty()) return weights;
  BRAID_CHECK(!at::GradMode::is_enabled() || !weights.requires_grad())
      << "trained experts with adapters";
  std::vector<at::Tensor> a, b;
  std::vector<int64_t> kinds;
  for (const Adapter& part : adapters.parts) {
    kinds.push_back(part.first_row / weights.size(2));
    a.push_back(part.a);
    b.push_back(part.b);
  }
  return AdaptedExpertsFunction::apply(weights, at::stack(a), at::stack(b), kinds, adapters.scale);
}

at::Tensor AdaptedLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const Adapters& adapters, const InputDropout& dropout) {
  if (adapters.empty()) return Linear(x, weight, bias);
  BRAID_CHECK(!at::GradMode::is_enabled() || !weight.requires_grad())
      << "a trained matrix with an adapter";
  AdaptedShape shape{.parts = {}, .scale = adapters.scale, .dropout = dropout};
  std::vector<at::Tensor> a, b;
  for (const Adapter& part : adapters.parts) {
    shape.parts.push_back({part.first_row, part.b.size(0)});
    a.push_back(part.a);
    b.push_back(part.b);
  }
  // Autograd functions accept no undefined tensor, so a missing bias is an empty one.
  const at::Tensor added = bias.defined() ? bias : at::empty({0}, x.options());
  return AdaptedLinearFunction::apply(x, weight, added, at::cat(a), at::cat(b), shape);
}

at::Tensor AdaptedFfn(const at::Tensor& x, const at::Tensor& gate_up, const at::Tensor& down,
                      const Adapters& gate_up_adapters, const Adapters& down_adapters,
                      const InputDropout& input_dropout, const InputDropout& hidden_dropout) {
  const at::Tensor hidden =
      SwiGlu(AdaptedLinear(x, gate_up, at::Tensor(), gate_up_adapters, input_dropout));
  return AdaptedLinear(hidden, down.t(), at::Tensor(), down_adapters, hidden_dropout);
}

}  // namespace braid
