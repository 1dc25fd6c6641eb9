// The model on a GPU against the same model on the CPU, which the other tests compare with plain
// references. Skipped where LibTorch finds no GPU.
#include <ATen/ATen.h>

#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "model/cached_decoder.h"
#include "model/config/finetuning_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/kernels/cross_entropy.h"
#include "model/transformer.h"
#include "tests/model/tensor_testing.h"

namespace braid {
namespace device_test {

constexpr char kBase[] =
    "num_layers: 3 d_model: 8 num_heads: 2 d_ff: 12 vocab_size: 19 sequence_length: 12 "
    "routing { num_experts: 1 segment_length: 4 } ";

// Fields of a ModelConfig and a Finetuning, as text.
struct DeviceCase {
  std::string name, model = "", finetuning = "";
  bool packed = false;  // whether a sequence of the batch has two examples
};

void PrintTo(const DeviceCase& c, std::ostream* out) { *out << c.name; }

DeviceCase Segments(const std::string& name, const std::string& fields) {
  return {name, "routing { router: CAUSAL_SEGMENT num_experts: 3 } " + fields};
}

DeviceCase Tokens(const std::string& name, const std::string& token,
                  const std::string& fields = "") {
  return {name,
          "routing { router: TOKEN_CHOICE num_experts: 4 "
          "token { active_experts: 2 expert_d_ff: 6 " +
              token + " } } " + fields};
}

DeviceCase Mixed(const std::string& name, const std::string& mixing) {
  return {name, "layer_mixing { alpha: 0.6 " + mixing + " } ", "", true};
}

// A model with random weights and a batch of tokens. All numbers are drawn on the CPU, so they are
// the same on every device.
class DeviceModel {
 public:
  DeviceModel(const DeviceCase& c, at::Device device, at::ScalarType type) {
    using google::protobuf::TextFormat;
    EXPECT_TRUE(TextFormat::MergeFromString(kBase + c.model, &config_));
    EXPECT_TRUE(TextFormat::MergeFromString(c.finetuning, &finetuning_));
    config_ = ResolveModelConfig(config_).value();
    finetuning_ = ResolveFinetuning(finetuning_, config_).value();
    layout_ = FinetunedLayout(config_, finetuning_);
    int64_t size = 0, trained = 0;
    for (const ParameterSpec& spec : layout_) {
      size += spec.size;
      if (spec.gradient_offset >= 0) trained += spec.size;
    }
    at::manual_seed(13);
    values_ = at::randn({size}, at::kDouble).mul_(0.4).to(device, type);
    gradients_ = at::zeros({trained}, values_.options());
    weights_ = BindWeights(config_, finetuning_, values_, gradients_);
    tables_ = TablesFor(config_, values_.options());
    const std::vector<int64_t> shape = {2, config_.sequence_length()};
    at::Tensor tokens = at::randint(0, config_.vocab_size(), shape, at::kLong);
    at::Tensor targets = at::randint(0, config_.vocab_size(), shape, at::kLong);
    for (const int64_t t : {1, 6, 7}) tokens[0][t] = 3;  // ends of documents
    targets.narrow(1, 0, 2).fill_(-1);
    tokens_ = tokens.to(device);
    targets_ = targets.to(device);
    if (!c.packed) return;
    at::Tensor visible = at::zeros(shape, at::kInt);
    visible[0].narrow(0, 7, shape[1] - 7).fill_(7);
    visible_ = visible.to(device);
  }

  const std::vector<ParameterSpec>& layout() const { return layout_; }
  bool Decodes() const { return !finetuning_.has_lora() && CheckMixingInference(config_).ok(); }

  // Runs a training step. Returns the loss, followed by all gradients, on the CPU.
  at::Tensor LossAndGradients() const {
    const int64_t passes = config_.consistency_loss() > 0 ? 2 : 1;
    const RankSum sum = [](std::span<double> values) {
      for (double& value : values) value *= 2;
      return absl::OkStatus();
    };
    const std::vector<int64_t> instances = {41, 17};
    RoutingContext context;
    context.seed = 5;
    context.instances = instances;
    context.passes = passes;
    context.counted = targets_.ge(0).to(at::kFloat).repeat({passes, 1});
    context.embedding_noise = finetuning_.embedding_noise();
    context.sum_over_ranks = &sum;  // as of two ranks with the same batch
    const HiddenStates states = RunTransformer(
        config_, weights_, tables_, tokens_.repeat({passes, 1}), MergeMode::kTraining, context,
        visible_.defined() ? visible_.repeat({passes, 1}) : visible_);
    CountChoices(states.choices, context.counted, config_.num_layers());
    const at::Tensor loss = LossOf(states);
    loss.backward();
    return at::cat({loss.detach().view({1}), gradients_}).to(at::kCPU, at::kDouble);
  }

  // Decodes two sequences of different lengths together. Returns all logits, and the scores of
  // continuations.
  std::vector<float> Decode() const {
    std::vector<float> result;
    const auto append = [&](const std::vector<float>& values) {
      result.insert(result.end(), values.begin(), values.end());
    };
    CachedDecoder a(config_, weights_, tables_, MergeMode::kSegment, 9);
    CachedDecoder b(config_, weights_, tables_, MergeMode::kSegment, 9);
    append(a.Prefill(std::vector<int32_t>{5, 3, 11, 2, 3, 8}).value());
    append(b.Prefill(std::vector<int32_t>{7, 12, 3}).value());
    for (const int32_t token : {4, 3, 9, 16}) {
      const std::vector<int32_t> next = {token, token + 1};
      const std::vector<CachedDecoder*> both = {&a, &b};
      const auto logits = CachedDecoder::StepTogether(both, next).value();
      for (const std::vector<float>& row : logits) append(row);
    }
    const std::vector<std::vector<int32_t>> continuations = {{6, 3, 14, 2, 1}, {10}, {3, 18}};
    const auto scores = b.ScoreContinuations(continuations).value();
    for (const std::vector<float>& row : scores) append(row);
    return result;
  }

 private:
  at::Tensor LossOf(const HiddenStates& states) const {
    const at::Tensor targets = targets_.flatten();
    const HeadLoss head = {.soft_cap = config_.logit_soft_cap(),
                           .z_loss = config_.z_loss(),
                           .label_smoothing = finetuning_.label_smoothing()};
    const double c = config_.consistency_loss();
    at::Tensor loss =
        c > 0 ? ConsistencyCrossEntropy(states.hidden, weights_.head, targets, 0.1, c).total
              : CrossEntropy(states.hidden, weights_.head, targets, 0.1, head).total;
    for (const at::Tensor& more : {states.balance_loss, states.mixing_loss, states.dropout_loss}) {
      if (more.defined()) loss = loss + more.sum();
    }
    return loss;
  }

  v1::ModelConfig config_;
  v1::Finetuning finetuning_;
  std::vector<ParameterSpec> layout_;
  at::Tensor values_, gradients_, tokens_, targets_, visible_;
  TransformerWeights weights_;
  AttentionTables tables_;
};

class DeviceTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no GPU";
  }

  // Compares the loss, and the gradients of every parameter relative to the greatest of them.
  void ExpectEqualSteps(at::ScalarType type, double tolerance) {
    const DeviceModel host(GetParam(), at::kCPU, type), device(GetParam(), at::kCUDA, type);
    const at::Tensor expected = host.LossAndGradients(), got = device.LossAndGradients();
    const auto compare = [&](int64_t offset, int64_t size, const std::string& name) {
      const at::Tensor part = expected.narrow(0, offset, size);
      EXPECT_LT(MaxDifference(got.narrow(0, offset, size), part),
                tolerance * (1 + part.abs().max().item<double>()))
          << name;
    };
    compare(0, 1, "loss");
    for (const ParameterSpec& spec : host.layout()) {
      if (spec.trained) compare(1 + spec.gradient_offset, spec.size, spec.name);
    }
  }
};

TEST_P(DeviceTest, TrainingStepInDoublesEqualsTheCpu) { ExpectEqualSteps(at::kDouble, 1e-9); }

TEST_P(DeviceTest, TrainingStepInFloatsEqualsTheCpu) { ExpectEqualSteps(at::kFloat, 1e-4); }

TEST_P(DeviceTest, DecodingEqualsTheCpu) {
  const DeviceModel host(GetParam(), at::kCPU, at::kDouble);
  if (!host.Decodes()) return;
  const std::vector<float> expected = host.Decode();
  const std::vector<float> got = DeviceModel(GetParam(), at::kCUDA, at::kDouble).Decode();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}

constexpr char kMask[] = "attention_mask: DOCUMENT document_end: 3 ";
constexpr char kHead[] = "tie_embeddings: true logit_soft_cap: 5 z_loss: 0.01";
constexpr char kLlama3[] =
    "num_heads: 4 num_key_value_heads: 2 rope_theta: 50 "
    "rope_scaling { type: LLAMA3_ROPE factor: 4 original_length: 20 }";
constexpr char kLora[] = "rank: 2 targets: ['q', 'v', 'o', 'gate', 'down']";

INSTANTIATE_TEST_SUITE_P(
    Models, DeviceTest,
    testing::Values(
        DeviceCase{"Dense"}, DeviceCase{"DensePacked", "", "", true},
        DeviceCase{"DenseMask", kMask}, DeviceCase{"DenseHead", kHead, "label_smoothing: 0.1"},
        DeviceCase{"Llama3", kLlama3, "", true},
        DeviceCase{"Qwen2", "num_heads: 4 num_key_value_heads: 1 qkv_bias: true"},
        DeviceCase{"Qwen3", "num_heads: 4 num_key_value_heads: 2 head_dim: 6 qk_norm: true"},
        DeviceCase{"Gpt2", "family: GPT2", "", true},
        Tokens("Gpt2Experts", "gate: KEY_MEAN combine_weights: ONES", "family: GPT2"),
        Segments("CausalSegment", ""),
        Segments("CausalSegmentUniform", "routing { first_segment: UNIFORM moe_layers: [0, 2] }"),
        Segments("DocumentSegments", "document_end: 3 routing { segment_boundaries: DOCUMENT }"),
        Segments("DocumentReset",
                 "document_end: 3 routing { segment_boundaries: DOCUMENT reset_at_documents: true "
                 "first_segment: UNIFORM router_input: PLAIN_MEAN }"),
        Segments("Llama3Segments", kLlama3),
        DeviceCase{"Prefix", "routing { router: PREFIX num_experts: 3 }"},
        DeviceCase{"SegmentChoice", "routing { router: EXPERT_CHOICE_SEGMENT num_experts: 3 }"},
        DeviceCase{"ExpertChoice", "routing { router: EXPERT_CHOICE_TOKEN num_experts: 3 }"},
        Tokens("LinearGate", "balance_loss: 0.1 gate_noise_std: 0.5"),
        Tokens("FrozenGate",
               "gate: FROZEN combine_weights: CHOSEN_OF_SOFTMAX centered_input: true"),
        Tokens("CosineGate", "gate: COSINE selection: NOT_TOP"),
        Tokens("HashGate", "gate: HASH combine_weights: EQUAL"),
        Tokens("RandomGate", "gate: RANDOM combine_weights: EQUAL", "consistency_loss: 0.5"),
        Tokens("ReluGate", "gate: RELU"), Tokens("DocumentPool", "document_pool: 3", kMask),
        Tokens("ExpertDropout", "", "dropout { kind: EXPERTS rate: 0.3 }"),
        Tokens("BlockDropout", "", "dropout { kind: DROP_BLOCK rate: 0.3 block_size: 2 }"),
        DeviceCase{"Dropout", "dropout { kind: BERNOULLI rate: 0.3 }"},
        DeviceCase{"ConcreteDropout", "dropout { kind: CONCRETE rate: 0.3 }"},
        Mixed("MixedSequence", "weight: PROBABILITY num_chosen: 2"),
        Mixed("MixedToken", "decision: TOKEN num_chosen: 2 balance_loss: 0.1 learn_alpha: true"),
        Mixed("MixedCosine", "decision: TOKEN weight: PROBABILITY score: COSINE own_gates: true"),
        Mixed("MixedBatch", "decision: BATCH_MEAN weight: PROBABILITY"),
        Mixed("MixedRandom", "gate: RANDOM"),
        Mixed("MixedRandomToken", "gate: RANDOM decision: TOKEN"),
        Mixed("MixedFixed", "gate: FIXED fixed: [2, 1, 0]"),
        DeviceCase{"Lora", "", std::string("lora { dropout: 0.3 ") + kLora + " }", true},
        DeviceCase{"LoraExperts", "routing { router: PREFIX num_experts: 3 }",
                   std::string("lora { ") + kLora + " }"},
        DeviceCase{"EmbeddingNoise", "", "embedding_noise: 5", true},
        // Several blocks of queries, whose probabilities are computed again in backward, groups of
        // segments and chunks of logits.
        Segments("LongSequences", "sequence_length: 1500 vocab_size: 1100")),
    [](const auto& test) { return test.param.name; });

}  // namespace device_test
}  // namespace braid
