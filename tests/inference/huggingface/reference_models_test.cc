// Compares exported models, run by the reference in reference_models.py, with ours.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "formats/npy.h"
#include "inference/huggingface/model_export.h"
#include "model/config/model_config.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/inference/huggingface/exported_models.h"

namespace braid {
namespace reference_models_test {

int RunReference(const std::string& arguments) {
  const std::string line = std::string("'") + BRAID_PYTHON + "' '" +
                           BRAID_TESTS_DIR "/inference/huggingface/reference_models.py" + "' " +
                           arguments;
  return std::system(line.c_str());
}

std::vector<int32_t> RandomTokens(size_t count, int32_t vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % vocab_size);
  return tokens;
}

v1::ModelConfig TokenChoiceConfig(v1::TokenRouting::Gate gate,
                                  v1::TokenRouting::CombineWeights weights,
                                  v1::TokenRouting::Selection selection) {
  v1::ModelConfig config = ExportedConfig(1);
  config.clear_routing();
  config.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  config.mutable_routing()->set_num_experts(6);
  v1::TokenRouting* const token = config.mutable_routing()->mutable_token();
  token->set_gate(gate);
  token->set_combine_weights(weights);
  token->set_selection(selection);
  token->set_active_experts(2);
  if (gate == v1::TokenRouting::COSINE) token->set_projection_width(5);
  return ResolveModelConfig(config).value();
}

class ReferenceModelsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(RunReference("--available"), 0)
        << "python3-torch is missing: ./deploy/install-dependencies.sh";
  }

  // Exports the model as a new case and writes tokens and logits next to it.
  void AddCase(const std::string& name, LanguageModel& model, const ExportOptions& options = {}) {
    const int64_t batch = 2, length = 29;  // ends inside a segment
    const std::vector<int32_t> tokens =
        RandomTokens(batch * length, model.config().vocab_size(), names_.size());
    ASSERT_OK_AND_ASSIGN(const std::vector<float> logits, model.Logits(tokens, batch));
    ASSERT_OK(ExportModel(model, TestTokenizerPath(), options, Case(name) / "export"));
    Put(name, {batch, length}, tokens, logits, model.config().vocab_size());
  }

  // Exports the model baked for a prompt. The expected logits are those of decoding, from the last
  // token of the prompt on.
  void AddBakedCase(const std::string& name, LanguageModel& model, const std::string& prompt) {
    std::vector<int32_t> tokens = TestTokenizer().Encode(prompt);
    tokens.insert(tokens.begin(), TestTokenizer().eos_id());
    ASSERT_OK(
        ExportModel(model, TestTokenizerPath(), {.bake_prompt = tokens}, Case(name) / "export"));
    const std::unique_ptr<Decoder> decoder = model.NewDecoder(MergeMode::kPrompt);
    ASSERT_OK_AND_ASSIGN(std::vector<float> logits, decoder->Prefill(tokens));
    for (const int32_t token : RandomTokens(9, model.config().vocab_size(), 5)) {
      ASSERT_OK_AND_ASSIGN(const std::vector<float> next, decoder->Step(token));
      tokens.push_back(token);
      logits.insert(logits.end(), next.begin(), next.end());
    }
    Put(name, {1, static_cast<int64_t>(tokens.size())}, tokens, logits,
        model.config().vocab_size());
  }

  // Writes the tokens that prompt routing generates greedily after the first five.
  void AddGreedy(const std::string& name, LanguageModel& model) {
    std::vector<int32_t> tokens = RandomTokens(5, model.config().vocab_size(), 3);
    const std::unique_ptr<Decoder> decoder = model.NewDecoder(MergeMode::kPrompt);
    ASSERT_OK_AND_ASSIGN(std::vector<float> logits, decoder->Prefill(tokens));
    while (tokens.size() < 30) {
      tokens.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
      ASSERT_OK_AND_ASSIGN(logits, decoder->Step(tokens.back()));
    }
    ASSERT_OK(WriteNpy<int32_t>(Case(name) / "greedy.npy", std::vector<int64_t>{1, 30}, tokens));
  }

  std::filesystem::path Case(const std::string& name) {
    std::filesystem::create_directories(root_ / name);
    return root_ / name;
  }

  std::string Cases() const {
    std::string arguments;
    for (const std::string& name : names_) {
      arguments += " '" + (root_ / name).string() + "'";
    }
    return arguments;
  }

 private:
  void Put(const std::string& name, std::vector<int64_t> shape, const std::vector<int32_t>& tokens,
           const std::vector<float>& logits, int64_t vocab_size) {
    ASSERT_OK(WriteNpy<int32_t>(Case(name) / "tokens.npy", shape, tokens));
    shape.back() = static_cast<int64_t>(logits.size()) / vocab_size / shape.front();
    shape.push_back(vocab_size);
    ASSERT_OK(WriteNpy<float>(Case(name) / "logits.npy", shape, logits));
    names_.push_back(name);
  }

  ScratchDirectory scratch_;
  // Cases are kept for tests/peers/transformers_models.py when BRAID_CASES names a directory.
  const std::filesystem::path root_ =
      std::getenv("BRAID_CASES") == nullptr ? scratch_ / "cases" : std::getenv("BRAID_CASES");
  std::vector<std::string> names_;
};

// Starting the reference takes longer than its work, so one call handles all cases.
TEST_F(ReferenceModelsTest, ComputeOurLogits) {
  SetModelThreads(1);
  int number = 0;
  AddCase("dense", *RandomModel(ExportedConfig(1)));
  AddCase("dense_in_shards", *RandomModel(ExportedConfig(1), 2), {.max_shard_bytes = 4000});
  v1::ModelConfig tied = ExportedConfig(1);
  tied.set_tie_embeddings(true);
  tied.set_rope_theta(500);
  tied.set_norm_epsilon(1e-3);
  tied.set_num_heads(4);
  AddCase("dense_tied", *RandomModel(tied, 3));

  v1::ModelConfig moe = ExportedConfig(4);
  AddCase("moe", *RandomModel(moe, 4));
  AddGreedy("moe", *RandomModel(moe, 4));
  AddBakedCase("baked", *RandomModel(moe, 5), "the cat sat on the mat");
  AddBakedCase("baked_without_prompt", *RandomModel(moe, 6), "");
  moe.mutable_routing()->set_first_segment(v1::UNIFORM);
  moe.mutable_routing()->set_router_input(v1::PLAIN_MEAN);
  moe.set_tie_embeddings(true);
  AddCase("moe_uniform_plain_tied", *RandomModel(moe, 7));
  AddBakedCase("baked_plain_tied", *RandomModel(moe, 8), "the dog ran");

  AddCase("gpt2", *RandomModel(ExportedGpt2(), 12));
  AddGreedy("gpt2", *RandomModel(ExportedGpt2(), 12));
  for (const v1::ModelConfig& config : ExportedArchitectures()) {
    const auto model = RandomModel(config, 20 + number);
    AddCase("architecture" + std::to_string(number), *model);
    AddGreedy("architecture" + std::to_string(number++), *model);
    if (config.routing().num_experts() == 1) continue;
    AddBakedCase("baked_architecture" + std::to_string(number++), *model, "the cat ran");
  }

  v1::ModelConfig mixed = ExportedConfig(3);
  mixed.mutable_routing()->add_moe_layers(1);
  AddCase("moe_in_one_layer", *RandomModel(mixed, 9));
  AddBakedCase("baked_in_one_layer", *RandomModel(mixed, 10), "the mat");
  for (const v1::Router router : {v1::PREFIX, v1::EXPERT_CHOICE_SEGMENT, v1::EXPERT_CHOICE_TOKEN}) {
    v1::ModelConfig other = ExportedConfig(4);
    other.mutable_routing()->set_router(router);
    const auto model = RandomModel(other, 11 + router);
    AddCase(v1::Router_Name(router), *model);
    AddGreedy(v1::Router_Name(router), *model);
    if (router == v1::EXPERT_CHOICE_TOKEN) continue;
    AddBakedCase("baked_" + v1::Router_Name(router), *model, "the dog sat");
  }
  for (const auto& [gate, weights, selection] :
       {std::tuple{v1::TokenRouting::LINEAR, v1::TokenRouting::SOFTMAX_OF_CHOSEN,
                   v1::TokenRouting::TOP},
        {v1::TokenRouting::FROZEN, v1::TokenRouting::CHOSEN_OF_SOFTMAX, v1::TokenRouting::NOT_TOP},
        {v1::TokenRouting::KEY_MEAN, v1::TokenRouting::ONES, v1::TokenRouting::TOP},
        {v1::TokenRouting::LINEAR, v1::TokenRouting::EQUAL, v1::TokenRouting::BOTTOM},
        {v1::TokenRouting::RELU, v1::TokenRouting::SCORES, v1::TokenRouting::TOP},
        {v1::TokenRouting::COSINE, v1::TokenRouting::SOFTMAX_OF_CHOSEN, v1::TokenRouting::TOP},
        {v1::TokenRouting::COSINE, v1::TokenRouting::ONES, v1::TokenRouting::BOTTOM},
        {v1::TokenRouting::HASH, v1::TokenRouting::EQUAL, v1::TokenRouting::TOP},
        {v1::TokenRouting::HASH, v1::TokenRouting::ONES, v1::TokenRouting::BOTTOM},
        {v1::TokenRouting::RANDOM, v1::TokenRouting::EQUAL, v1::TokenRouting::TOP}}) {
    v1::ModelConfig chosen = TokenChoiceConfig(gate, weights, selection);
    if (gate == v1::TokenRouting::FROZEN) chosen.set_logit_soft_cap(2);
    const auto model = RandomModel(chosen, 40 + number);
    AddCase("token_choice" + std::to_string(number), *model);
    AddGreedy("token_choice" + std::to_string(number++), *model);
  }
  EXPECT_EQ(RunReference(Cases()), 0);
}

// Shows that the comparison can fail.
TEST_F(ReferenceModelsTest, DetectAWrongModel) {
  SetModelThreads(1);
  const auto model = RandomModel(ExportedConfig(1));
  AddCase("wrong", *model);
  model->parameters()[3].value[5] += 0.5f;
  ASSERT_OK(ExportModel(*model, TestTokenizerPath(), {.force = true}, Case("wrong") / "export"));
  EXPECT_NE(RunReference(Cases() + " >/dev/null"), 0);
}

}  // namespace reference_models_test
}  // namespace braid
