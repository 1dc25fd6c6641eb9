#include "model/config/model_flops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"

namespace braid {
namespace model_flops_test {

v1::ModelConfig Small(v1::Router router, int num_experts) {
  v1::ModelConfig config;
  config.set_num_layers(3);
  config.set_d_model(8);
  config.set_num_heads(2);
  config.set_d_ff(20);
  config.set_vocab_size(50);
  config.set_sequence_length(24);
  config.mutable_routing()->set_router(router);
  config.mutable_routing()->set_num_experts(num_experts);
  config.mutable_routing()->set_segment_length(6);
  return ResolveModelConfig(config).value();
}

// Counts the products of one sequence, loop by loop, as docs/model.md defines them. Attention
// covers every key up to the query itself; the formula takes half of all keys, so they differ by
// 1/L.
struct Count {
  double products = 0, attention = 0, merges = 0;
};

void Product(double rows, double columns, double depth, double* flops) {
  *flops += 2 * rows * columns * depth;
}

Count CountForward(const v1::ModelConfig& config) {
  const double d = config.d_model(), f = config.d_ff(), length = config.sequence_length();
  const double segment = config.routing().segment_length(), e = config.routing().num_experts();
  Count count;
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    const double width = config.has_head_dim() ? config.head_dim() : d / config.num_heads();
    const double queries = config.num_heads() * width;
    const double keys =
        config.num_key_value_heads() > 0 ? config.num_key_value_heads() * width : queries;
    for (const double rows : {queries, keys, keys}) Product(length, rows, d, &count.products);
    Product(length, d, queries, &count.products);
    for (double position = 0; position < length; ++position) {
      Product(1, position + 1, queries, &count.attention);  // scores of all heads
      Product(1, queries, position + 1, &count.attention);  // values
    }
    for (double at = 0; at < length; at += segment) {
      for (int matrix = 0; matrix < 3; ++matrix) {
        Product(segment, f, d, &count.products);
        if (e > 1) Product(1, f * d, e, &count.merges);
      }
    }
  }
  Product(length, config.vocab_size(), d, &count.products);
  return count;
}

TEST(ModelFlopsTest, MatchCountingEveryMultiplicationOfASequence) {
  for (const int experts : {1, 4, 7}) {
    const v1::ModelConfig config = Small(experts > 1 ? v1::CAUSAL_SEGMENT : v1::DENSE, experts);
    const double length = config.sequence_length();
    const Count count = CountForward(config);
    const ModelFlops flops = FlopsPerToken(config);
    const double half_attention = count.attention * length / (length + 1);
    EXPECT_NEAR(flops.forward * length, count.products + half_attention, 1e-6) << experts;
    EXPECT_NEAR(flops.backward, 2 * flops.forward, 1e-9);
    EXPECT_NEAR(flops.merge_forward * length, count.merges, 1e-6);
    // Averaging again, the gradients of W, and those of the routing weights.
    EXPECT_NEAR(flops.merge_backward * length, 3 * count.merges, 1e-6);
    EXPECT_DOUBLE_EQ(flops.total(), flops.active() + flops.merge());
  }
}

TEST(ModelFlopsTest, GroupedQueriesHaveSmallerProjectionsAndTheSameAttention) {
  v1::ModelConfig config = Small(v1::DENSE, 1);
  config.set_num_heads(6);
  config.set_head_dim(4);
  config.set_num_key_value_heads(2);
  const Count count = CountForward(config);
  const double length = config.sequence_length();
  EXPECT_NEAR(FlopsPerToken(config).forward * length,
              count.products + count.attention * length / (length + 1), 1e-6);
}

TEST(ModelFlopsTest, MergingIsFourThirdsExpertsPerSegmentTokenOfTheFfn) {
  const v1::ModelConfig config = Small(v1::CAUSAL_SEGMENT, 4);
  const double ffn = 6.0 * 3 * 3 * 8 * 20;  // forward and backward products
  EXPECT_NEAR(FlopsPerToken(config).merge() / ffn, 4 * 4 / (3.0 * 6), 1e-12);
}

TEST(ModelFlopsTest, CountsExpertChoiceAndPrefixRouters) {
  const double dense = FlopsPerToken(Small(v1::DENSE, 1)).active();
  const ModelFlops causal = FlopsPerToken(Small(v1::CAUSAL_SEGMENT, 4));
  const ModelFlops prefix = FlopsPerToken(Small(v1::PREFIX, 4));
  EXPECT_NEAR(prefix.active(), dense, 1e-9);
  EXPECT_NEAR(prefix.merge(), causal.merge() / 2, 1e-9);  // 2 averages instead of 4 segments
  EXPECT_NEAR(FlopsPerToken(Small(v1::EXPERT_CHOICE_SEGMENT, 4)).active(), dense, 1e-9);
  EXPECT_EQ(FlopsPerToken(Small(v1::EXPERT_CHOICE_SEGMENT, 4)).merge(), 0);
  // Three experts take two of the four segments each.
  const double ffn = 6.0 * 3 * 3 * 8 * 20;
  EXPECT_NEAR(FlopsPerToken(Small(v1::EXPERT_CHOICE_SEGMENT, 3)).active(), dense + ffn / 2, 1e-9);
  EXPECT_NEAR(FlopsPerToken(Small(v1::EXPERT_CHOICE_TOKEN, 4)).active(), dense + 6 * 3 * 4 * 8.0,
              1e-9);
}

v1::Finetuning QueryAndValueAdapters(const v1::ModelConfig& config, int rank, int first_layer) {
  v1::Finetuning finetuning;
  finetuning.mutable_lora()->set_rank(rank);
  for (int layer = first_layer; layer < config.num_layers(); ++layer) {
    finetuning.mutable_lora()->add_layers(layer);
  }
  return ResolveFinetuning(finetuning, config).value();
}

// Counts every product of a step of one sequence with adapters on q and v of the layers from
// `first`. Gradients of inputs pass through the head and all layers above `first`; in `first`
// itself they end at q, k and v.
TEST(ModelFlopsTest, AdaptersNeedGradientsOfInputsOnlyAsFarAsTheyReach) {
  const v1::ModelConfig config = Small(v1::DENSE, 1);
  const double d = 8, f = 20, vocabulary = 50, length = 24, rank = 2;
  for (const int first : {0, 1, 2}) {
    double forward = FlopsPerToken(config).forward * length, backward = 0;
    Product(length, d, vocabulary, &backward);
    for (int layer = first; layer < 3; ++layer) {
      double attention = 0, adapters = 0;
      Product(length, length / 2, d, &attention);  // scores of all heads
      Product(length, d, length / 2, &attention);  // values
      for (int target = 0; target < 2; ++target) {
        Product(length, rank, d, &adapters);
        Product(length, d, rank, &adapters);
      }
      forward += adapters;
      backward += 2 * attention + 2 * adapters;
      for (int matrix = 0; matrix < 3; ++matrix) Product(length, f, d, &backward);
      Product(length, d, d, &backward);  // o
      for (int matrix = 0; layer > first && matrix < 3; ++matrix) Product(length, d, d, &backward);
    }
    const ModelFlops flops = FlopsPerToken(config, QueryAndValueAdapters(config, 2, first));
    EXPECT_NEAR(flops.forward * length, forward, 1e-6) << first;
    EXPECT_NEAR(flops.backward * length, backward, 1e-6) << first;
  }
}

TEST(ModelFlopsTest, ListedParametersAddTheProductsOfTheirGradients) {
  const v1::ModelConfig config = Small(v1::DENSE, 1);
  const auto backward = [&](const std::vector<const char*>& patterns) {
    v1::Finetuning finetuning;
    for (const char* pattern : patterns) finetuning.add_train(pattern);
    return FlopsPerToken(config, ResolveFinetuning(finetuning, config).value()).backward / 2;
  };
  const double head = 8 * 50, ffn = 3 * 8 * 20, projections = 4 * 8 * 8, scores = 2 * 8 * 12;
  EXPECT_NEAR(backward({"lm_head.weight"}), head, 1e-9);
  EXPECT_NEAR(backward({"model.norm.weight"}), head, 1e-9);
  EXPECT_NEAR(backward({"model.layers.2.mlp.down_proj.*"}), head + 8 * 20, 1e-9);
  EXPECT_NEAR(backward({"model.layers.2.mlp.*"}), head + ffn + 8 * 20, 1e-9);
  EXPECT_NEAR(backward({"model.layers.1.*"}),
              head + 2 * (ffn + projections + 2 * scores) + ffn + projections, 1e-9);
  EXPECT_NEAR(backward({"*"}), FlopsPerToken(config).forward, 1e-9);
}

// The model of braid-bench-finetune, whose steps these ratios bound.
TEST(ModelFlopsTest, AdaptersTakeTwoThirdsOfAStepAndThoseOfTheUpperHalfHalf) {
  v1::ModelConfig config;
  config.set_num_layers(6);
  config.set_d_model(512);
  config.set_num_heads(8);
  config.set_vocab_size(8192);
  config.set_sequence_length(1024);
  config = ResolveModelConfig(config).value();
  const double full = FlopsPerToken(config).total();
  const auto ratio = [&](int first) {
    return FlopsPerToken(config, QueryAndValueAdapters(config, 8, first)).total() / full;
  };
  EXPECT_NEAR(ratio(0), .70, .03);
  EXPECT_NEAR(ratio(3), .53, .03);
}

TEST(ModelFlopsTest, BothPassesOfAConsistencyLossCount) {
  for (const int experts : {1, 4}) {
    v1::ModelConfig config = Small(experts > 1 ? v1::CAUSAL_SEGMENT : v1::DENSE, experts);
    const ModelFlops once = FlopsPerToken(config);
    config.set_consistency_loss(5);
    EXPECT_NEAR(FlopsPerToken(config).total(), 2 * once.total(), 1e-9);
    EXPECT_NEAR(FlopsPerToken(config).merge(), 2 * once.merge(), 1e-9);
  }
}

TEST(ModelFlopsTest, AttentionCountsTheKeysThatPositionsSee) {
  const v1::ModelConfig config = Small(v1::DENSE, 1);
  const double whole = FlopsPerToken(config).forward;
  EXPECT_NEAR(FlopsPerToken(config, {}, {.visible_keys = 12}).forward, whole, 1e-9);
  // Scores and values of three layers with 8 queries.
  EXPECT_NEAR(whole - FlopsPerToken(config, {}, {.visible_keys = 4}).forward,
              2 * 2 * 3 * 8 * (12 - 4), 1e-9);
}

TEST(ModelFlopsTest, MergingCountsTheSegmentsOfDocuments) {
  const v1::ModelConfig config = Small(v1::CAUSAL_SEGMENT, 4);
  const ModelFlops fixed = FlopsPerToken(config);
  // As many segments again, each with its own average of all experts.
  const double twice = 2.0 / config.routing().segment_length();
  const ModelFlops by_document = FlopsPerToken(config, {}, {.segments = twice});
  EXPECT_NEAR(by_document.merge(), 2 * fixed.merge(), 1e-9);
  EXPECT_EQ(by_document.active(), fixed.active());
}

TEST(ModelFlopsTest, GatesOfVaryingWidthCountTheExpertsInUse) {
  v1::ModelConfig config = Small(v1::TOKEN_CHOICE, 4);
  v1::TokenRouting* token = config.mutable_routing()->mutable_token();
  const auto flops = [&](double active) {
    token->set_active_experts(static_cast<int32_t>(active));
    return FlopsPerToken(config);
  };
  const ModelFlops three = flops(3), one = flops(1);
  EXPECT_GT(three.total(), one.total());
  EXPECT_NEAR(FlopsPerToken(config, {}, {.active_experts = 3}).total(), three.total(), 1e-9);
}

TEST(ModelFlopsTest, TheHeadCountsPositionsWithTarget) {
  const v1::ModelConfig config = Small(v1::DENSE, 1);
  const ModelFlops all = FlopsPerToken(config),
                   half = FlopsPerToken(config, {}, {.target_share = .5});
  const double head = 2.0 * config.d_model() * config.vocab_size();
  EXPECT_NEAR(all.forward - half.forward, .5 * head, 1e-9);
  EXPECT_NEAR(all.backward - half.backward, head, 1e-9);
  // Adapters need the head's gradient with respect to its input only.
  const v1::Finetuning adapters = QueryAndValueAdapters(config, 2, 0);
  EXPECT_NEAR(FlopsPerToken(config, adapters).backward -
                  FlopsPerToken(config, adapters, {.target_share = .5}).backward,
              .5 * head, 1e-9);
}

// The 7B of the paper: 6 N and attention.
TEST(ModelFlopsTest, LargeModelIsSixTimesItsParameters) {
  v1::ModelConfig config;
  config.set_preset("7B");
  config = ResolveModelConfig(config).value();
  const double used = static_cast<double>(DescribeModel(config).num_parameters()) -
                      4096.0 * 32000;  // without the embedding
  EXPECT_NEAR(FlopsPerToken(config).active() / (6 * used + 6.0 * 32 * 4096 * 4096), 1, 1e-4);
}

}  // namespace model_flops_test
}  // namespace braid
