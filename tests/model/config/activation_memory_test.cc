// Compares predicted activations with what the tensor library allocates.
#include "model/config/activation_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/kernels/fused_ffn.h"
#include "model/kernels/fused_ffn_function.h"
#include "model/kernels/routed_ffn_function.h"
#include "model/kernels/scratch.h"
#include "model/language_model.h"
#include "tests/model/tensor_bytes.h"

namespace braid {
namespace activation_memory_test {

v1::ModelConfig ActivationConfig(int experts, int vocabulary,
                                 v1::Router router = v1::ROUTER_UNSPECIFIED) {
  v1::ModelConfig config;
  config.set_num_layers(4);
  config.set_d_model(96);
  config.set_num_heads(4);
  config.set_d_ff(256);
  config.set_vocab_size(vocabulary);
  config.set_sequence_length(512);
  config.mutable_routing()->set_num_experts(experts);
  config.mutable_routing()->set_segment_length(64);
  config.mutable_routing()->set_router(router);
  return ResolveModelConfig(config).value();
}

int64_t PeakBytes(const v1::ModelConfig& config, int64_t batch_size,
                  const v1::Finetuning& finetuning = {}) {
  const auto model = LanguageModel::Create(config, 1, finetuning).value();
  std::mt19937 random(1);
  std::vector<int32_t> tokens(batch_size * config.sequence_length());
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % config.vocab_size());
  return PeakTensorBytes(
      [&] { EXPECT_TRUE(model->ForwardBackward(tokens, tokens, batch_size, 1, false).ok()); });
}

// How much depends on the lengths of the documents.
TEST(ActivationMemoryTest, OfSegmentsByDocumentIsAnUpperBound) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  for (const int vocabulary : {10, 300}) {  // documents of 10 and 300 tokens on average
    v1::ModelConfig config = ActivationConfig(4, vocabulary);
    config.mutable_routing()->set_segment_boundaries(v1::RoutingConfig::DOCUMENT);
    config.set_document_end(3);
    config = ResolveModelConfig(config).value();
    const ActivationMemory memory = ActivationsOf(config, 2);
    const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
    const auto measured = static_cast<double>(PeakBytes(config, 2));
    EXPECT_LT(measured, 1.02 * foreseen);
    EXPECT_GT(measured, 0.5 * foreseen);
  }
}

TEST(ActivationMemoryTest, OfGroupedQueriesIsWithinTenPercentToo) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  for (const bool qwen3 : {false, true}) {
    v1::ModelConfig config = ActivationConfig(1, 300);
    config.set_num_heads(8);
    config.set_num_key_value_heads(2);
    config.set_head_dim(24);
    config.set_qk_norm(qwen3);
    config.set_qkv_bias(!qwen3);
    config = ResolveModelConfig(config).value();
    const ActivationMemory memory = ActivationsOf(config, 2);
    const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
    EXPECT_NEAR(foreseen / static_cast<double>(PeakBytes(config, 2)), 1, 0.1) << qwen3;
  }
}

TEST(ActivationMemoryTest, OfGpt2IsWithinTenPercentToo) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  for (const int vocabulary : {300, 6000}) {
    for (const int64_t batch_size : {1, 3}) {
      v1::ModelConfig config = ActivationConfig(1, vocabulary);
      config.set_family(v1::GPT2);
      config.clear_rope_theta();
      config = ResolveModelConfig(config).value();
      const ActivationMemory memory = ActivationsOf(config, batch_size);
      const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
      EXPECT_NEAR(foreseen / static_cast<double>(PeakBytes(config, batch_size)), 1, 0.1)
          << "V " << vocabulary << ", B " << batch_size;
    }
  }
}

TEST(ActivationMemoryTest, OfAdaptersIsWithinTenPercentToo) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  v1::ModelConfig llama = ActivationConfig(1, 300), gpt2 = llama;
  gpt2.set_family(v1::GPT2);
  gpt2.clear_rope_theta();
  for (const v1::ModelConfig& config : {llama, ResolveModelConfig(gpt2).value()}) {
    for (const std::vector<const char*>& targets : {std::vector{"q"},
                                                    {"o"},
                                                    {"up"},
                                                    {"down"},
                                                    {"q", "v"},
                                                    {"q", "down"},
                                                    {"up", "down"},
                                                    {"q", "k", "v", "o", "up", "down"}}) {
      for (const int first_layer : {0, 2}) {
        v1::Finetuning finetuning;
        for (const char* target : targets) finetuning.mutable_lora()->add_targets(target);
        for (int i = first_layer; i < 4; ++i) finetuning.mutable_lora()->add_layers(i);
        finetuning = ResolveFinetuning(finetuning, config).value();
        const ActivationMemory memory = ActivationsOf(config, 2, finetuning);
        const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
        const double ratio = foreseen / static_cast<double>(PeakBytes(config, 2, finetuning));
        const std::string which =
            absl::StrCat(v1::Family_Name(config.family()), ", ", targets.size(), " targets to ",
                         targets.back(), " from layer ", first_layer);
        EXPECT_GT(ratio, 0.9) << which;
        EXPECT_LT(ratio, 1.1) << which;
      }
    }
  }
}

TEST(ActivationMemoryTest, OfListedParametersIsWithinTenPercentToo) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  const v1::ModelConfig config = ActivationConfig(1, 300);
  for (const char* pattern : {"model.layers.2.*", "*norm*", "*self_attn.o_proj*", "*mlp*"}) {
    v1::Finetuning finetuning;
    finetuning.add_train(pattern);
    finetuning = ResolveFinetuning(finetuning, config).value();
    const ActivationMemory memory = ActivationsOf(config, 2, finetuning);
    const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
    EXPECT_NEAR(foreseen / static_cast<double>(PeakBytes(config, 2, finetuning)), 1, 0.1)
        << pattern;
  }
}

// The weights with adapters added are kept, and their gradients are temporaries.
TEST(ActivationMemoryTest, OfAdaptersOfExpertsIsWithinTenPercentToo) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  for (const auto router : {v1::CAUSAL_SEGMENT, v1::TOKEN_CHOICE}) {
    const v1::ModelConfig config = ActivationConfig(8, 300, router);
    for (const std::vector<const char*>& targets :
         {std::vector{"q"}, {"q", "up"}, {"q", "down"}, {"q", "gate", "up", "down"}}) {
      v1::Finetuning finetuning;
      for (const char* target : targets) finetuning.mutable_lora()->add_targets(target);
      finetuning = ResolveFinetuning(finetuning, config).value();
      const ActivationMemory memory = ActivationsOf(config, 2, finetuning);
      const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
      EXPECT_NEAR(foreseen / static_cast<double>(PeakBytes(config, 2, finetuning)), 1, 0.1)
          << v1::Router_Name(router) << ", " << targets.size() << " targets to " << targets.back();
    }
  }
}

TEST(ActivationMemoryTest, SecondPassesOfMixedLayersAreWithinTenPercentToo) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  for (const bool adapters : {false, true}) {
    for (const bool learned : {false, true}) {
      v1::ModelConfig config = ActivationConfig(1, 300);
      v1::LayerMixing* const mixing = config.mutable_layer_mixing();
      mixing->set_gate(v1::LayerMixing::FIXED);
      mixing->set_learn_alpha(learned);
      for (const int other : {1, 2, 3, 3}) mixing->add_fixed(other);
      config = ResolveModelConfig(config).value();
      v1::Finetuning finetuning;
      if (adapters) {
        finetuning.mutable_lora()->add_targets("q");
        finetuning = ResolveFinetuning(finetuning, config).value();
      }
      const ActivationMemory memory = ActivationsOf(config, 2, finetuning);
      const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
      EXPECT_NEAR(foreseen / static_cast<double>(PeakBytes(config, 2, finetuning)), 1, 0.1)
          << adapters << learned;
    }
  }
}

int64_t DecoderBytes(const v1::ModelConfig& config) {
  const auto model = LanguageModel::Create(config, 1).value();
  const auto decoder = model->NewDecoder(MergeMode::kPrompt);
  const auto counter = std::make_shared<TensorBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
  EXPECT_TRUE(decoder->Prefill(std::vector<int32_t>{1}).ok());
  return counter->now();
}

TEST(ActivationMemoryTest, ScratchOfExpertsOfFewUnitsIsCounted) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  v1::ModelConfig config = ActivationConfig(16, 300, v1::TOKEN_CHOICE);
  config.set_d_ff(1024);  // 64 units of each expert, more than half of what a row of D floats takes
  config.mutable_routing()->mutable_token()->clear_expert_d_ff();
  config.mutable_routing()->mutable_token()->set_active_experts(8);
  config = ResolveModelConfig(config).value();
  double held = 0;
  // A new thread has no scratch memory yet.
  std::thread([&] {
    PeakBytes(config, 8);
    held = static_cast<double>(Scratch::HeldByThread() * sizeof(float));
  }).join();
  const auto foreseen = static_cast<double>(ActivationsOf(config, 8).scratch_bytes);
  EXPECT_NEAR(foreseen / held, 1, 0.2);
}

// The key-value cache holds key heads only: a quarter for four query heads per key head.
TEST(DecoderMemoryTest, CacheShrinksByTheGroup) {
  std::vector<int64_t> bytes;
  for (const int key_heads : {8, 2}) {
    v1::ModelConfig config = ActivationConfig(1, 300);
    config.set_sequence_length(4096);
    config.set_num_heads(8);
    config.set_num_key_value_heads(key_heads);
    bytes.push_back(DecoderBytes(ResolveModelConfig(config).value()));
  }
  const int64_t cache = int64_t{4} * 2 * 4096 * 96 * 4;  // layers, K and V, L, D, bytes
  EXPECT_NEAR(static_cast<double>(bytes[0]), static_cast<double>(cache), 1e-3 * cache);
  EXPECT_NEAR(static_cast<double>(bytes[1]), static_cast<double>(cache) / 4, 1e-3 * cache);
}

// A layer that mixes has a second cache of keys and values, and keeps its inputs only where a later
// position may choose yet another layer.
TEST(DecoderMemoryTest, MixingDoublesTheCacheUnlessPositionsChoose) {
  v1::ModelConfig config = ActivationConfig(1, 300);
  config.set_sequence_length(4096);
  config = ResolveModelConfig(config).value();
  const auto plain = static_cast<double>(DecoderBytes(config));
  v1::LayerMixing* const mixing = config.mutable_layer_mixing();
  mixing->set_gate(v1::LayerMixing::FIXED);
  for (const int other : {1, 2, 3, 0}) mixing->add_fixed(other);
  EXPECT_NEAR(static_cast<double>(DecoderBytes(ResolveModelConfig(config).value())), 2 * plain,
              2e-3 * plain);
  // Gates of which it is unknown whether they choose the layer itself.
  mixing->clear_fixed();
  mixing->set_gate(v1::LayerMixing::LEARNED);
  EXPECT_LE(static_cast<double>(DecoderBytes(ResolveModelConfig(config).value())), 2.002 * plain);
  config.set_document_end(2);
  config.set_attention_mask(v1::DOCUMENT);
  const double inputs = 4.0 * 4096 * 96 * 4;  // layers, L, D, bytes
  EXPECT_GE(static_cast<double>(DecoderBytes(ResolveModelConfig(config).value())), plain + inputs);
}

// The gate RELU chooses every expert with a positive score, so the forecast assumes all of them.
TEST(ActivationMemoryTest, OfTheGateReluIsAnUpperBound) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  v1::ModelConfig config = ActivationConfig(8, 300, v1::TOKEN_CHOICE);
  config.mutable_routing()->clear_token();
  config.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::RELU);
  config.mutable_routing()->mutable_token()->set_active_experts(2);
  config = ResolveModelConfig(config).value();
  const ActivationMemory memory = ActivationsOf(config, 2);
  const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
  const auto measured = static_cast<double>(PeakBytes(config, 2));
  EXPECT_LT(measured, 1.02 * foreseen);
  EXPECT_GT(measured, 0.4 * foreseen);
}

TEST(ActivationMemoryTest, IsWithinTenPercentOfTheAllocatedMemory) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  for (const int experts : {1, 4}) {
    for (const int vocabulary : {300, 6000}) {
      for (const int64_t batch_size : {1, 3}) {
        const v1::ModelConfig config = ActivationConfig(experts, vocabulary);
        const ActivationMemory memory = ActivationsOf(config, batch_size);
        const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
        const auto measured = static_cast<double>(PeakBytes(config, batch_size));
        EXPECT_NEAR(foreseen / measured, 1, 0.1)
            << experts << " experts, V " << vocabulary << ", B " << batch_size << ": " << foreseen
            << " foreseen, " << measured << " measured";
      }
    }
  }
}

// A soft cap holds the logits twice; a gate of cosines projections of its input; a centered gate
// its own input; and dropout in a GPT2 its factors.
TEST(ActivationMemoryTest, OfCapsGatesAndDropoutIsWithinTenPercentToo) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  const auto expect_near = [](v1::ModelConfig config, const std::string& what) {
    config = ResolveModelConfig(config).value();
    const ActivationMemory memory = ActivationsOf(config, 2);
    const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
    EXPECT_NEAR(foreseen / static_cast<double>(PeakBytes(config, 2)), 1, 0.1) << what;
  };
  v1::ModelConfig capped = ActivationConfig(1, 6000);
  capped.set_logit_soft_cap(30);
  expect_near(capped, "soft cap");
  for (const int experts : {8, 128}) {
    v1::ModelConfig cosine = ActivationConfig(experts, 300, v1::TOKEN_CHOICE);
    cosine.mutable_routing()->clear_token();
    cosine.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::COSINE);
    expect_near(cosine, absl::StrCat("cosines of ", experts, " experts"));
  }
  v1::ModelConfig centered = ActivationConfig(8, 300, v1::TOKEN_CHOICE);
  centered.mutable_routing()->mutable_token()->set_centered_input(true);
  expect_near(centered, "centered input");
  v1::ModelConfig gpt2 = ActivationConfig(1, 300);
  gpt2.set_family(v1::GPT2);
  gpt2.clear_rope_theta();
  gpt2.mutable_dropout()->set_rate(0.1);
  expect_near(gpt2, "dropout in a GPT2");
}

// Both passes are held, but of the logits only as much as with a plain loss.
TEST(ActivationMemoryTest, OfAConsistencyLossIsWithinTenPercentToo) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  for (const int64_t batch_size : {1, 3}) {
    v1::ModelConfig config = ActivationConfig(8, 6000, v1::TOKEN_CHOICE);
    config.mutable_routing()->clear_token();
    config.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::RANDOM);
    config.set_consistency_loss(2);
    config = ResolveModelConfig(config).value();
    const ActivationMemory memory = ActivationsOf(config, batch_size);
    const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
    EXPECT_NEAR(foreseen / static_cast<double>(PeakBytes(config, batch_size)), 1, 0.1)
        << batch_size;
  }
}

// Dropout keeps the key of a token, 8 bytes, where a mask would take a byte per hidden unit.
TEST(ActivationMemoryTest, OfDropoutIsThatWithoutAMask) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  for (const auto router : {v1::DENSE, v1::TOKEN_CHOICE}) {
    const v1::ModelConfig plain = ActivationConfig(router == v1::DENSE ? 1 : 8, 300, router);
    v1::ModelConfig dropping = plain;
    dropping.mutable_dropout()->set_rate(0.1);
    dropping = ResolveModelConfig(dropping).value();
    const ActivationMemory memory = ActivationsOf(dropping, 2);
    const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
    const int64_t measured = PeakBytes(dropping, 2);
    EXPECT_NEAR(foreseen / static_cast<double>(measured), 1, 0.1) << v1::Router_Name(router);
    const int64_t layer_tokens = int64_t{4} * 2 * 512;
    EXPECT_LT(measured - PeakBytes(plain, 2), 16 * layer_tokens) << v1::Router_Name(router);
  }
}

// Returns the bytes that a forward pass leaves for backward beside its arguments and its result.
template <class Forward>
int64_t KeptBytes(const Forward& forward) {
  const auto counter = std::make_shared<TensorBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
  const at::Tensor y = forward();
  return counter->now() - static_cast<int64_t>(y.nbytes());
}

TEST(ActivationMemoryTest, RoutedFfnKeepsTheShareOfTheDenseOne) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  constexpr int64_t kTokens = 200, kWidth = 48, kUnits = 24, kActive = 4;
  const auto leaf = [](at::IntArrayRef shape) -> at::Tensor {
    return at::rand(shape).requires_grad_();
  };
  const at::Tensor x = leaf({kTokens, kWidth}), weights = leaf({kTokens, kActive});
  const at::Tensor chosen = at::arange(kActive, at::kInt).repeat({kTokens, 1});
  const auto routed = [&](int64_t experts) {
    const SoftExperts split = {leaf({2, experts, kUnits, kWidth}), leaf({experts, kUnits, kWidth})};
    return KeptBytes([&] { return FusedRoutedFfn(x, chosen, weights, split); });
  };
  const at::Tensor gate_up = leaf({2 * 16 * kUnits, kWidth}), down = leaf({16 * kUnits, kWidth});
  const int64_t dense = KeptBytes([&] { return FusedFfn(x, {}, gate_up, down); });
  const double share = static_cast<double>(routed(16)) / static_cast<double>(dense);
  EXPECT_NEAR(share / (kActive / 16.0), 1, 0.02);
  EXPECT_EQ(routed(64), routed(16)) << "no tensor grows with the number of experts";
}

// The kernel keeps k/N of what a dense FFN keeps, and the gate little beside it.
TEST(ActivationMemoryTest, CountsTheChosenPairsOfTokenRoutedExperts) {
  if (!HasFusedFfn()) GTEST_SKIP() << "the arithmetic is that of the fused kernels";
  for (const int64_t batch_size : {1, 3}) {
    const v1::ModelConfig config = ActivationConfig(8, 300, v1::TOKEN_CHOICE);
    const ActivationMemory memory = ActivationsOf(config, batch_size);
    const auto foreseen = static_cast<double>(memory.kept_bytes + memory.transient_bytes);
    const auto measured = static_cast<double>(PeakBytes(config, batch_size));
    EXPECT_NEAR(foreseen / measured, 1, 0.1) << foreseen << " foreseen, " << measured;
    EXPECT_LT(memory.kept_bytes, ActivationsOf(ActivationConfig(1, 300), batch_size).kept_bytes);
  }
}

}  // namespace activation_memory_test
}  // namespace braid
