#include "model/kernels/ffn_dropout.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

namespace braid {
namespace {

// The middle of each of 2^23 intervals, as the kernels have it in single precision.
double UniformOf(uint32_t bits) { return (static_cast<double>(bits >> 9) + 0.5) * 0x1p-23; }

// Calls fill(token's key halves, row of `units` values) for each token.
template <class Fill>
at::Tensor FillRows(const FfnDropout& dropout, int64_t units, Fill fill) {
  const UnitDropout kernel = dropout.ForKernel();
  const int64_t tokens = dropout.keys.size(1);
  at::Tensor rows = at::empty({tokens, units}, at::kDouble);
  double* row = rows.data_ptr<double>();
  for (int64_t t = 0; t < tokens; ++t, row += units) fill(kernel.From(t), row);
  return rows;
}

bool BlockCovers(const UnitDropout& d, int64_t unit) {
  const int64_t span = unit / d.span * d.span, begin = unit - d.block / 2;
  for (int64_t u = std::max(begin, span); u < std::min(begin + d.block, span + d.span); ++u) {
    const uint32_t bits = DropoutBits(static_cast<uint32_t>(u), *d.key_low, *d.key_high);
    // The quotient in single precision, as in the kernels.
    if (bits < static_cast<double>(d.rate / static_cast<float>(d.block)) * 0x1p32) return true;
  }
  return false;
}

}  // namespace

UnitDropout FfnDropout::ForKernel() const {
  if (!drops()) return {};
  const auto* const halves = reinterpret_cast<const uint32_t*>(keys.data_ptr<int32_t>());
  UnitDropout kernel;
  kernel.kind = kind;
  kernel.key_low = halves;
  kernel.key_high = halves + keys.size(1);
  kernel.rate = static_cast<float>(rate);
  kernel.block = static_cast<int32_t>(block);
  kernel.span = span;
  if (kind == UnitDropout::kConcrete) {
    kernel.logit = logit.item<float>();
    kernel.rate = 1 / (1 + std::exp(-kernel.logit));
  }
  return kernel;
}

bool FfnDropout::LearnsRate() const { return logit.defined() && logit.requires_grad(); }

at::Tensor FfnDropout::LogitArgument(const at::TensorOptions& options) const {
  return logit.defined() ? logit : at::empty({0}, options);
}

at::Tensor DropoutFactors(const FfnDropout& dropout, int64_t units,
                          const at::TensorOptions& options) {
  const at::TensorOptions plain = options.requires_grad(false);
  if (dropout.kind == UnitDropout::kConcrete) {
    const at::Tensor u = FillRows(dropout, units, [&](const UnitDropout& d, double* row) {
                           for (int64_t i = 0; i < units; ++i) {
                             const auto unit = static_cast<uint32_t>(i);
                             row[i] = UniformOf(DropoutBits(unit, *d.key_low, *d.key_high));
                           }
                         }).to(plain);
    const at::Tensor relaxed = (dropout.logit + at::log(u) - at::log1p(-u)) / kConcreteTemperature;
    return at::sigmoid(-relaxed) / at::sigmoid(-dropout.logit);
  }
  return FillRows(dropout, units,
                  [&](const UnitDropout& d, double* row) {
                    for (int64_t i = 0; i < units; ++i) {
                      if (d.kind == UnitDropout::kBlock) {
                        row[i] = BlockCovers(d, i) ? 0 : 1;
                        continue;
                      }
                      const uint32_t bits =
                          DropoutBits(static_cast<uint32_t>(i), *d.key_low, *d.key_high);
                      // The rate in single precision, as in the kernels: both must drop the same
                      // units.
                      row[i] = bits < static_cast<double>(d.rate) * 0x1p32
                                   ? 0
                                   : 1 / (1 - static_cast<double>(d.rate));
                    }
                  })
      .to(plain);
}

void SaveDropout(const FfnDropout& dropout, torch::autograd::AutogradContext* context) {
  context->saved_data["dropout"] = static_cast<int64_t>(dropout.kind);
  if (!dropout.drops()) return;
  context->saved_data["rate"] = dropout.rate;
  context->saved_data["block"] = dropout.block;
  context->saved_data["span"] = dropout.span;
  context->saved_data["keys"] = dropout.keys;
  if (dropout.logit.defined()) context->saved_data["logit"] = dropout.logit.detach();
}

FfnDropout SavedDropout(torch::autograd::AutogradContext* context) {
  FfnDropout dropout;
  dropout.kind = static_cast<UnitDropout::Kind>(context->saved_data["dropout"].toInt());
  if (!dropout.drops()) return dropout;
  dropout.rate = context->saved_data["rate"].toDouble();
  dropout.block = context->saved_data["block"].toInt();
  dropout.span = context->saved_data["span"].toInt();
  dropout.keys = context->saved_data["keys"].toTensor();
  if (dropout.kind == UnitDropout::kConcrete) {
    dropout.logit = context->saved_data["logit"].toTensor();
  }
  return dropout;
}

at::Tensor LogitGradient(const FfnDropout& dropout, double gradient) {
  if (!dropout.logit.defined()) return {};
  return at::full({1}, gradient, dropout.logit.options().requires_grad(false));
}

}  // namespace braid
