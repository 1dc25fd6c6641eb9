#include "model/transformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "model/kernels/cross_entropy.h"
#include "tests/model/reference_transformer.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace transformer_test {

struct TransformerCase {
  std::string name;
  v1::Router router = v1::DENSE;
  v1::FirstSegment first_segment = v1::SELF_STOP_GRADIENT;
  v1::RouterInput router_input = v1::NORMALIZED_MEAN;
  bool tied = false;
  std::vector<int> moe_layers = {};
  int num_experts = 3;
  int segment_length = 4;
  // Fields of a ModelConfig, as text.
  std::string attention = "";
};

void PrintTo(const TransformerCase& c, std::ostream* out) { *out << c.name; }

v1::ModelConfig SmallConfig(const TransformerCase& c) {
  v1::ModelConfig config;
  config.set_num_layers(3);
  config.set_d_model(8);
  config.set_num_heads(2);
  config.set_d_ff(12);
  config.set_vocab_size(19);
  config.set_sequence_length(12);
  config.set_tie_embeddings(c.tied);
  config.mutable_routing()->set_router(c.router);
  config.mutable_routing()->set_num_experts(c.router == v1::DENSE ? 1 : c.num_experts);
  config.mutable_routing()->set_segment_length(c.segment_length);
  config.mutable_routing()->mutable_moe_layers()->Assign(c.moe_layers.begin(), c.moe_layers.end());
  config.mutable_routing()->set_first_segment(c.first_segment);
  config.mutable_routing()->set_router_input(c.router_input);
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(c.attention, &config));
  return ResolveModelConfig(config).value();
}

constexpr char kLlama3[] =
    "num_heads: 4 num_key_value_heads: 2 rope_theta: 50 "
    "rope_scaling { type: LLAMA3_ROPE factor: 4 original_length: 20 }";
constexpr char kMasked[] = "document_end: 3 attention_mask: DOCUMENT";
constexpr char kByDocument[] = "document_end: 3 routing { segment_boundaries: DOCUMENT }";
constexpr char kReset[] =
    "document_end: 3 routing { segment_boundaries: DOCUMENT reset_at_documents: true }";
constexpr char kQwen2[] =
    "num_heads: 4 num_key_value_heads: 1 qkv_bias: true rope_scaling { type: LINEAR_ROPE factor: 2 "
    "}";
constexpr char kGpt2[] = "family: GPT2";
// Experts as EMoE splits them off an FFN.
constexpr char kGpt2Experts[] =
    "family: GPT2 routing { router_input: PLAIN_MEAN token { gate: KEY_MEAN combine_weights: ONES "
    "active_experts: 2 expert_d_ff: 4 } }";
constexpr char kQwen3[] = "num_heads: 4 num_key_value_heads: 2 head_dim: 6 qk_norm: true";

// A double-precision model with random weights large enough to make it nonlinear, and one batch.
class TransformerTest : public testing::TestWithParam<TransformerCase> {
 protected:
  TransformerTest() : config_(SmallConfig(GetParam())) {
    at::manual_seed(13);
    layout_ = ParameterLayout(config_);
    const int64_t size = layout_.back().offset + layout_.back().size;
    values_ = at::randn({size}, at::kDouble).mul_(0.4);
    gradients_ = at::zeros({size}, at::kDouble);
    weights_ = BindWeights(config_, {}, values_, gradients_);
    tables_ = TablesFor(config_, values_.options());
    tokens_ = at::randint(0, 19, {2, 12}, at::kLong);
    targets_ = at::randint(0, 19, {2, 12}, at::kLong);
    targets_[1][11] = -1;
    // Documents of different lengths, one of a single token.
    if (config_.has_document_end()) {
      for (const int64_t t : {1, 6, 7}) tokens_[0][t] = config_.document_end();
    }
  }

  at::Tensor Loss() const {
    const HiddenStates states =
        RunTransformer(config_, weights_, tables_, tokens_, MergeMode::kTraining);
    return CrossEntropy(states.hidden, weights_.head, targets_.flatten(), 1).total;
  }

  // Returns the leaves of the reference model, by name.
  std::map<std::string, at::Tensor> NamedCopies() const {
    std::map<std::string, at::Tensor> copies;
    for (const ParameterSpec& spec : layout_) {
      copies[spec.name] =
          values_.narrow(0, spec.offset, spec.size).view(spec.shape).clone().requires_grad_();
    }
    return copies;
  }

  void ExpectReferenceGradients() {
    const std::map<std::string, at::Tensor> parameters = NamedCopies();
    const at::Tensor expected = ReferenceLoss(config_, parameters, tokens_, targets_);
    const at::Tensor loss = Loss();
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-9);
    expected.backward();
    loss.backward();
    for (const ParameterSpec& spec : layout_) {
      const at::Tensor got = gradients_.narrow(0, spec.offset, spec.size).view(spec.shape);
      const at::Tensor& gradient = parameters.at(spec.name).grad();
      // The only segment is the first, so no loss depends on the router's decision. Without
      // rotation, a bias of all keys adds the same to every score of a query.
      const bool idle = (spec.group == "router" && GetParam().segment_length == 12) ||
                        (config_.family() == v1::GPT2 && spec.name.ends_with("k_proj.bias"));
      EXPECT_EQ(got.abs().max().item<double>() > 1e-6, !idle) << spec.name;
      if (idle) continue;
      EXPECT_LT(MaxDifference(got, gradient), 1e-9) << spec.name;
    }
  }

  v1::ModelConfig config_;
  std::vector<ParameterSpec> layout_;
  at::Tensor values_, gradients_, tokens_, targets_;
  TransformerWeights weights_;
  AttentionTables tables_;
};

TEST_P(TransformerTest, EqualsReferenceForwardAndAllGradients) { ExpectReferenceGradients(); }

// Segments of 4 and 3 then end with a segment of 2 or 1.
TEST_P(TransformerTest, PartialLastSegmentEqualsReference) {
  tokens_ = tokens_.narrow(1, 0, 10).contiguous();
  targets_ = targets_.narrow(1, 0, 10).contiguous();
  ExpectReferenceGradients();
}

TEST_P(TransformerTest, GradientsAccumulateInTheFlatBuffer) {
  Loss().backward();
  const at::Tensor once = gradients_.clone();
  Loss().backward();
  EXPECT_LT(MaxDifference(gradients_, once * 2), 1e-9);
}

// The stop-gradient of self routing is not a derivative, so it is excluded here. A small step does
// not change which experts are chosen.
TEST_P(TransformerTest, GradientsEqualFiniteDifferences) {
  const bool routes_itself =
      GetParam().router == v1::DENSE || GetParam().router == v1::TOKEN_CHOICE ||
      GetParam().router == v1::EXPERT_CHOICE_TOKEN || GetParam().first_segment == v1::UNIFORM;
  if (!routes_itself) return;
  Loss().backward();
  std::mt19937 random(3);
  double* const data = values_.data_ptr<double>();
  for (const ParameterSpec& spec : layout_) {
    for (int sample = 0; sample < 3; ++sample) {
      const int64_t at = spec.offset + static_cast<int64_t>(random() % spec.size);
      const double original = data[at], step = 1e-5;
      data[at] = original + step;
      const double above = Loss().item<double>();
      data[at] = original - step;
      const double below = Loss().item<double>();
      data[at] = original;
      EXPECT_NEAR(gradients_[at].item<double>(), (above - below) / (2 * step), 1e-6) << spec.name;
    }
  }
}

// Outside training every router is causal, including expert choice.
TEST_P(TransformerTest, PartialLastSegmentChangesNothingBefore) {
  const at::Tensor whole =
      RunTransformer(config_, weights_, tables_, tokens_, MergeMode::kSegment).hidden;
  const at::Tensor cut =
      RunTransformer(config_, weights_, tables_, tokens_.narrow(1, 0, 10), MergeMode::kSegment)
          .hidden;
  EXPECT_LT(MaxDifference(cut.view({2, 10, 8}), whole.view({2, 12, 8}).narrow(1, 0, 10)), 1e-12);
}

// In training, a later token influences an earlier position only through expert choice.
TEST_P(TransformerTest, TrainingIsCausalExceptForExpertChoice) {
  const auto router = GetParam().router;
  const int64_t first = GetParam().first_segment == v1::UNIFORM ? 0 : GetParam().segment_length;
  bool leaked = false;
  for (int64_t at = std::max<int64_t>(first, 1); at < 12; ++at) {
    const auto hidden = [&] {
      return RunTransformer(config_, weights_, tables_, tokens_, MergeMode::kTraining)
          .hidden.clone();
    };
    const at::Tensor before = hidden();
    tokens_[0][at] = (tokens_[0][at] + 1) % 19;
    // A token that ends a document changes how products are grouped, and so their last bits.
    leaked |= MaxDifference(before.narrow(0, 0, at), hidden().narrow(0, 0, at)) > 1e-12;
  }
  // The same segments may be chosen with either token.
  if (router == v1::EXPERT_CHOICE_SEGMENT) return;
  EXPECT_EQ(leaked, router == v1::EXPERT_CHOICE_TOKEN);
}

TEST_P(TransformerTest, RoutingNamesTheLayersAndItsRowsSumToOne) {
  const HiddenStates states =
      RunTransformer(config_, weights_, tables_, tokens_, MergeMode::kTraining);
  const std::vector<int> layers = MoeLayers(config_);
  ASSERT_EQ(states.routing.size(), layers.size());
  const int64_t rows = 12 / TokensPerDecision(config_);
  for (size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(states.routing[i].layer, layers[i]);
    const at::Tensor& weights = states.routing[i].weights;
    ASSERT_EQ(weights.sizes(), (std::vector<int64_t>{2, rows, GetParam().num_experts}));
    EXPECT_FALSE(weights.requires_grad());
    EXPECT_LT(MaxDifference(weights.sum(2), at::ones({2, rows}, at::kDouble)), 1e-12);
  }
}

constexpr v1::RouterInput kPlain = v1::PLAIN_MEAN;
constexpr v1::FirstSegment kSelf = v1::SELF_STOP_GRADIENT;

INSTANTIATE_TEST_SUITE_P(
    Routers, TransformerTest,
    testing::Values(
        TransformerCase{"Dense"}, TransformerCase{.name = "DenseTied", .tied = true},
        TransformerCase{"SelfNormalized", v1::CAUSAL_SEGMENT},
        TransformerCase{"SelfPlain", v1::CAUSAL_SEGMENT, kSelf, kPlain},
        TransformerCase{"UniformNormalized", v1::CAUSAL_SEGMENT, v1::UNIFORM},
        TransformerCase{"UniformPlain", v1::CAUSAL_SEGMENT, v1::UNIFORM, kPlain},
        TransformerCase{.name = "DocumentMask", .attention = kMasked},
        TransformerCase{.name = "DocumentMaskUniform",
                        .router = v1::CAUSAL_SEGMENT,
                        .first_segment = v1::UNIFORM,
                        .attention = kMasked},
        TransformerCase{
            .name = "DocumentSelf", .router = v1::CAUSAL_SEGMENT, .attention = kByDocument},
        TransformerCase{.name = "DocumentUniform",
                        .router = v1::CAUSAL_SEGMENT,
                        .first_segment = v1::UNIFORM,
                        .router_input = kPlain,
                        .attention = kByDocument},
        TransformerCase{.name = "DocumentReset",
                        .router = v1::CAUSAL_SEGMENT,
                        .first_segment = v1::UNIFORM,
                        .segment_length = 3,
                        .attention = kReset},
        TransformerCase{.name = "FirstLayerOnly", .router = v1::CAUSAL_SEGMENT, .moe_layers = {0}},
        TransformerCase{
            "OuterLayersUniform", v1::CAUSAL_SEGMENT, v1::UNIFORM, kPlain, true, {0, 2}},
        TransformerCase{"SegmentsOfOneToken", v1::CAUSAL_SEGMENT, kSelf, kPlain, false, {}, 5, 1},
        TransformerCase{"OneSegment", v1::CAUSAL_SEGMENT, v1::UNIFORM, kPlain, false, {}, 2, 12},
        TransformerCase{"PrefixSelf", v1::PREFIX},
        TransformerCase{"PrefixUniform", v1::PREFIX, v1::UNIFORM, kPlain},
        TransformerCase{"PrefixMixedLayers", v1::PREFIX, v1::UNIFORM, kPlain, false, {1}, 4, 6},
        TransformerCase{"SegmentChoice", v1::EXPERT_CHOICE_SEGMENT},
        TransformerCase{"SegmentChoiceUniform", v1::EXPERT_CHOICE_SEGMENT, v1::UNIFORM, kPlain},
        TransformerCase{"MoreExpertsThanSegments",
                        v1::EXPERT_CHOICE_SEGMENT,
                        v1::UNIFORM,
                        kPlain,
                        false,
                        {0, 1},
                        7,
                        3},
        TransformerCase{.name = "Llama3", .attention = kLlama3},
        TransformerCase{.name = "Qwen2", .tied = true, .attention = kQwen2},
        TransformerCase{.name = "Qwen3", .attention = kQwen3},
        TransformerCase{.name = "Gpt2", .attention = kGpt2},
        TransformerCase{
            .name = "Gpt2Experts", .router = v1::TOKEN_CHOICE, .attention = kGpt2Experts},
        TransformerCase{.name = "WideHeads", .attention = "num_heads: 3 head_dim: 4"},
        TransformerCase{
            .name = "Llama3Experts", .router = v1::CAUSAL_SEGMENT, .attention = kLlama3},
        TransformerCase{.name = "Qwen2Experts", .router = v1::PREFIX, .attention = kQwen2},
        TransformerCase{.name = "Qwen3Experts",
                        .router = v1::CAUSAL_SEGMENT,
                        .first_segment = v1::UNIFORM,
                        .attention = kQwen3},
        TransformerCase{"TokenChoice", v1::EXPERT_CHOICE_TOKEN},
        TransformerCase{
            "TokenChoicePlain", v1::EXPERT_CHOICE_TOKEN, kSelf, kPlain, false, {1, 2}, 5, 6}),
    [](const auto& test) { return test.param.name; });

}  // namespace transformer_test
}  // namespace braid
