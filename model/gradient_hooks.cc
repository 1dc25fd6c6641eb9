#include "model/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace braid {
namespace {

using torch::autograd::variable_list;

class ReadyHook final : public torch::autograd::FunctionPostHook {
 public:
  ReadyHook(std::shared_ptr<const GradientsReady*> target, Shard part)
      : target_(std::move(target)), part_(part) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    if (*target_ != nullptr) (**target_)(part_);
    return outputs;
  }

 private:
  std::shared_ptr<const GradientsReady*> target_;
  Shard part_;
};

}  // namespace

GradientHooks::GradientHooks(const TransformerWeights& weights, const at::Tensor& gradients) {
  const auto watch = [&](const at::Tensor& leaf) {
    if (leaf.defined() && leaf.requires_grad()) Watch(leaf, gradients);
  };
  watch(weights.embedding);
  watch(weights.positions);
  for (const LayerWeights& layer : weights.layers) {
    for (const at::Tensor& leaf :
         {layer.attention_norm.weight, layer.attention_norm.bias, layer.qkv, layer.qkv_bias,
          layer.query_norm, layer.key_norm, layer.attention_output, layer.attention_output_bias,
          layer.ffn_norm.weight, layer.ffn_norm.bias, layer.ffn.router, layer.ffn.gate_up,
          layer.ffn.down, layer.ffn.router_projection, layer.ffn.router_scale,
          layer.ffn.dropout_logit, layer.ffn.up_bias, layer.ffn.down_bias}) {
      watch(leaf);
    }
    const LayerAdapters& adapters = layer.adapters;
    for (const Adapters* of :
         {&adapters.qkv, &adapters.attention_output, &adapters.gate_up, &adapters.down}) {
      for (const Adapter& part : of->parts) {
        watch(part.a);
        watch(part.b);
      }
    }
  }
  for (const MixingGate& gate : weights.mixing.gates) {
    for (const at::Tensor& leaf : {gate.weight, gate.bias, gate.projection, gate.log_scale}) {
      watch(leaf);
    }
  }
  watch(weights.mixing.alpha);
  watch(weights.final_norm.weight);
  watch(weights.final_norm.bias);
  // A tied head is the same leaf; with two hooks its range would be reported twice.
  if (!weights.head.is_same(weights.embedding)) watch(weights.head);
}

void GradientHooks::Watch(const at::Tensor& leaf, const at::Tensor& gradients) {
  const auto begin =
      static_cast<size_t>(leaf.grad().data_ptr<float>() - gradients.data_ptr<float>());
  const Shard part{begin, begin + static_cast<size_t>(leaf.numel())};
  accumulators_.push_back(torch::autograd::impl::grad_accumulator(leaf));
  accumulators_.back()->add_post_hook(std::make_unique<ReadyHook>(target_, part));
}

}  // namespace braid
