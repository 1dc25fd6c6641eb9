#include "inference/huggingface/model_export.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "formats/safetensors.h"
#include "inference/huggingface/baked_weights.h"
#include "inference/huggingface/file_tensor.h"
#include "inference/huggingface/model_import.h"
#include "inference/huggingface/modeling_braid.h"
#include "inference/prompt.h"
#include "model/config/model_config.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/inference/huggingface/exported_models.h"
#include "trainer/training_state.h"

namespace braid {
namespace model_export_test {

namespace fs = std::filesystem;

class ModelExportTest : public testing::Test {
 protected:
  v1::ExportRequest Request(LanguageModel& model) {
    v1::ExportRequest request;
    request.set_model(CheckpointOf(model, scratch_ / "checkpoints").string());
    request.set_output_dir((scratch_ / "out").string());
    return request;
  }

  nlohmann::json Config(const std::string& directory) {
    return nlohmann::json::parse(GetFile(scratch_ / directory / "config.json"));
  }

  ScratchDirectory scratch_;
};

TEST_F(ModelExportTest, DenseModelIsAStockLlama) {
  const auto model = RandomModel(ExportedConfig(1));
  ASSERT_OK_AND_ASSIGN(const auto response, Export(Request(*model)));
  EXPECT_EQ(response.architecture(), "LlamaForCausalLM");
  EXPECT_EQ(response.num_parameters(), static_cast<int64_t>(model->values().size()));
  const nlohmann::json config = Config("out");
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["hidden_size"], 16);
  EXPECT_EQ(config["num_key_value_heads"], 2);
  EXPECT_EQ(config["max_position_embeddings"], 40);
  EXPECT_EQ(config["eos_token_id"], TestTokenizer().eos_id());
  const auto files = FilesOf(scratch_ / "out");
  EXPECT_EQ(files.size(), 7u);
  EXPECT_EQ(files.at("tokenizer.model"), GetFile(TestTokenizerPath()));
  EXPECT_EQ(nlohmann::json::parse(files.at("tokenizer.json"))["model"]["byte_fallback"], true);
  ASSERT_OK_AND_ASSIGN(auto weights, SafetensorsFile::Open(scratch_ / "out/model.safetensors"));
  EXPECT_EQ(weights.metadata().at("format"), "pt");
  ASSERT_NE(weights.Find("model.layers.1.mlp.down_proj.weight"), nullptr);
  EXPECT_EQ(weights.Find("model.layers.1.mlp.down_proj.weight")->shape,
            (std::vector<int64_t>{16, 24}));
}

// The first two pieces, <unk> and <s>, each a tag, a length of one byte and the piece, swap places.
TEST_F(ModelExportTest, UnknownCharactersHaveThePieceOfTheirType) {
  const std::string bytes = GetFile(TestTokenizerPath());
  const size_t first = 2 + static_cast<size_t>(bytes[1]);
  const size_t second = 2 + static_cast<size_t>(bytes[first + 1]);
  const fs::path tokenizer = scratch_ / "swapped.model";
  PutFile(tokenizer,
          bytes.substr(first, second) + bytes.substr(0, first) + bytes.substr(first + second));
  const auto model = RandomModel(ExportedConfig(1));
  ASSERT_OK(ExportModel(*model, tokenizer, {}, scratch_ / "out"));
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto json = nlohmann::json::parse(GetFile(scratch_ / "out" / name));
    EXPECT_EQ(json["unk_token"], "<unk>") << name;
    EXPECT_EQ(json["eos_token"], "</s>") << name;
  }
}

TEST_F(ModelExportTest, ExpertModelsBringTheProgramThatLoadsThem) {
  const auto model = RandomModel(ExportedConfig(4));
  ASSERT_OK(Export(Request(*model)));
  EXPECT_EQ(GetFile(scratch_ / "out/modeling_braid.py"), ModelingBraid());
  const nlohmann::json map = Config("out")["auto_map"];
  for (const auto& [automatic, name] : map.items()) {
    const std::string text = name;
    ASSERT_TRUE(text.starts_with("modeling_braid.")) << automatic;
    EXPECT_NE(ModelingBraid().find("class " + text.substr(15) + "("), std::string_view::npos);
  }
  EXPECT_EQ(map.size(), 2u);
}

TEST_F(ModelExportTest, ExportingTwiceGivesTheSameBytes) {
  const auto model = RandomModel(ExportedConfig(4));
  v1::ExportRequest request = Request(*model);
  for (const char* name : {"first", "second"}) {
    request.set_output_dir((scratch_ / name).string());
    request.set_bake_prompt("the cat");
    request.set_max_shard_bytes(3000);
    ASSERT_OK(Export(request));
  }
  EXPECT_EQ(FilesOf(scratch_ / "first"), FilesOf(scratch_ / "second"));
}

TEST_F(ModelExportTest, ShardsHoldEveryTensorOnce) {
  const auto model = RandomModel(ExportedConfig(1));
  v1::ExportRequest request = Request(*model);
  request.set_max_shard_bytes(5000);
  ASSERT_OK_AND_ASSIGN(const auto response, Export(request));
  const auto index = nlohmann::json::parse(GetFile(scratch_ / "out/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 4 * response.num_parameters());
  EXPECT_EQ(index["weight_map"].size(), model->parameters().size());
  for (const ParameterSpec& spec : ParameterLayout(model->config())) {
    const FileTensor tensor = FileTensorsOf(model->config(), spec).front();
    const std::string file = index["weight_map"][tensor.name];
    ASSERT_OK_AND_ASSIGN(auto shard, SafetensorsFile::Open(scratch_ / "out" / file));
    EXPECT_EQ(shard.Find(tensor.name)->shape, tensor.shape);
    if (tensor.transposed) continue;  // see TransposesMatrices
    ASSERT_OK_AND_ASSIGN(const auto values, shard.Float(tensor.name));
    EXPECT_TRUE(std::ranges::equal(values, model->values().subspan(spec.offset, spec.size)))
        << tensor.name;
  }
}

TEST_F(ModelExportTest, BakedRoutingIsThatOfPromptRoutedDecoding) {
  const auto model = RandomModel(ExportedConfig(4));
  v1::ExportRequest request = Request(*model);
  request.set_bake_prompt("the dog ran after the cat");
  ASSERT_OK_AND_ASSIGN(const auto response, Export(request));
  EXPECT_EQ(response.architecture(), "LlamaForCausalLM");
  const auto decoder = model->NewDecoder(MergeMode::kPrompt);
  ASSERT_OK(decoder->Prefill(PromptTokens({}, TestTokenizer(), request.bake_prompt())));
  const std::vector<ExpertMixture> mixtures = decoder->Mixtures();
  ASSERT_EQ(response.routing_size(), 2);
  for (int layer = 0; layer < 2; ++layer) {
    double sum = 0;
    for (int e = 0; e < 4; ++e) {
      EXPECT_FLOAT_EQ(static_cast<float>(response.routing(layer).weights(e)),
                      mixtures[layer].down[e]);
      sum += mixtures[layer].gate_up[e];
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST_F(ModelExportTest, TransposesMatrices) {
  const int64_t rows = 70, columns = 41;
  std::vector<float> from(2 * rows * columns), to(from.size());
  std::iota(from.begin(), from.end(), 0.0f);
  TransposeMatrices(from, rows, columns, to);
  for (int64_t m = 0; m < 2; ++m) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        ASSERT_EQ(to[(m * columns + j) * rows + i], from[(m * rows + i) * columns + j]);
      }
    }
  }
}

TEST_F(ModelExportTest, SixteenBitTypesAreRoundedValues) {
  const auto model = RandomModel(ExportedConfig(1));
  v1::ExportRequest request = Request(*model);
  for (const auto& [name, dtype] :
       {std::pair("bfloat16", DType::kBF16), {"float16", DType::kF16}}) {
    request.set_dtype(name);
    request.set_output_dir((scratch_ / name).string());
    ASSERT_OK(Export(request));
    EXPECT_EQ(Config(name)["torch_dtype"], name);
    ASSERT_OK_AND_ASSIGN(auto weights,
                         SafetensorsFile::Open(scratch_ / name / "model.safetensors"));
    EXPECT_EQ(weights.Find("lm_head.weight")->dtype, dtype);
  }
  model->parameters()[0].value[3] = 70000;
  request.set_model(CheckpointOf(*model, scratch_ / "large").string());
  request.set_output_dir((scratch_ / "overflow").string());
  EXPECT_FAILS(Export(request), absl::StatusCode::kOutOfRange, "model.embed_tokens.weight",
               "element 3", "bfloat16");
  EXPECT_FALSE(fs::exists(scratch_ / "overflow"));
  EXPECT_FALSE(HoldsStaging(scratch_.path()));
}

TEST_F(ModelExportTest, ReplacesOnlyAnExportAndOnlyWhenForced) {
  const auto model = RandomModel(ExportedConfig(1));
  v1::ExportRequest request = Request(*model);
  ASSERT_OK(Export(request));
  const auto before = FilesOf(scratch_ / "out");
  EXPECT_FAILS(Export(request), absl::StatusCode::kAlreadyExists, "out", "--force");
  EXPECT_EQ(FilesOf(scratch_ / "out"), before);
  request.set_dtype("bfloat16");
  request.set_force(true);
  ASSERT_OK(Export(request));
  EXPECT_NE(FilesOf(scratch_ / "out"), before);
  fs::create_directories(scratch_ / "precious");
  PutFile(scratch_ / "precious/thesis.tex", "42");
  request.set_output_dir((scratch_ / "precious").string());
  EXPECT_FAILS(Export(request), absl::StatusCode::kFailedPrecondition, "config.json");
  EXPECT_EQ(GetFile(scratch_ / "precious/thesis.tex"), "42");
}

TEST_F(ModelExportTest, KeepsADirectoryWithTheNameOfTheOutputAndTmp) {
  const auto model = RandomModel(ExportedConfig(1));
  fs::create_directories(scratch_ / "out.tmp");
  PutFile(scratch_ / "out.tmp/mine", "precious");
  ASSERT_OK(Export(Request(*model)));
  EXPECT_EQ(GetFile(scratch_ / "out.tmp/mine"), "precious");
  EXPECT_FALSE(HoldsStaging(scratch_.path()));
}

TEST_F(ModelExportTest, TokenChoiceCannotBeBaked) {
  v1::ModelConfig config = ExportedConfig(4);
  config.mutable_routing()->set_router(v1::EXPERT_CHOICE_TOKEN);
  const auto model = RandomModel(config);
  v1::ExportRequest request = Request(*model);
  request.set_bake_prompt("the cat");
  EXPECT_FAILS(Export(request), absl::StatusCode::kFailedPrecondition, "EXPERT_CHOICE_TOKEN",
               "without --bake");
  EXPECT_FALSE(HoldsStaging(scratch_.path()));
}

// reference_models_test compares what they compute.
TEST_F(ModelExportTest, ModelsThatChooseByTokenIdHaveNoTensorsOfAGate) {
  v1::ModelConfig config = ExportedConfig(4);
  config.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  config.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::HASH);
  config = ResolveModelConfig(config).value();
  ASSERT_OK_AND_ASSIGN(const auto response, Export(Request(*RandomModel(config))));
  EXPECT_EQ(response.architecture(), "BraidSoftMoeForCausalLM");
  EXPECT_EQ(response.why_not_mixtral(), "the gate is HASH, expected LINEAR or FROZEN");
  EXPECT_EQ(Config("out")["gate"], "HASH");
  EXPECT_EQ(Config("out")["combine_weights"], "EQUAL");
  ASSERT_OK_AND_ASSIGN(auto weights, SafetensorsFile::Open(scratch_ / "out/model.safetensors"));
  EXPECT_NE(weights.Find("model.layers.1.mlp.experts.down_proj.weight"), nullptr);
  EXPECT_EQ(weights.Find("model.layers.1.mlp.router.weight"), nullptr);
  EXPECT_NE(ModelingBraid().find("def hash_scores("), std::string_view::npos);
}

TEST_F(ModelExportTest, OnlyExpertModelsKeepABoundOfTheLogits) {
  v1::ModelConfig config = ExportedConfig(1);
  config.set_logit_soft_cap(30);
  EXPECT_FAILS(Export(Request(*RandomModel(config))), absl::StatusCode::kInvalidArgument,
               "model.logit_soft_cap: got 30", "LlamaForCausalLM has no bound");
  v1::ModelConfig experts = ExportedConfig(4);
  experts.set_logit_soft_cap(30);
  const auto model = RandomModel(experts);
  v1::ExportRequest request = Request(*model);
  EXPECT_OK(Export(request));
  request.set_bake_prompt("the cat");
  request.set_force(true);
  EXPECT_FAILS(Export(request), absl::StatusCode::kInvalidArgument, "model.logit_soft_cap");
}

TEST_F(ModelExportTest, LabelHeadsAreExportedForSequenceClassification) {
  v1::ModelConfig config = ExportedConfig(1);
  config.mutable_label_head()->add_classes("no");
  config.mutable_label_head()->add_classes("yes");
  const auto model = RandomModel(config);
  ASSERT_OK_AND_ASSIGN(const auto response, Export(Request(*model)));
  EXPECT_EQ(response.architecture(), "LlamaForSequenceClassification");
  nlohmann::json json = Config("out");
  EXPECT_EQ(json["id2label"], nlohmann::json({{"0", "no"}, {"1", "yes"}}));
  EXPECT_EQ(json["label2id"], nlohmann::json({{"no", 0}, {"yes", 1}}));
  EXPECT_EQ(json["problem_type"], "single_label_classification");
  EXPECT_EQ(json["pad_token_id"], TestTokenizer().eos_id());
  ASSERT_OK_AND_ASSIGN(auto weights, SafetensorsFile::Open(scratch_ / "out/model.safetensors"));
  ASSERT_NE(weights.Find("score.weight"), nullptr);
  EXPECT_EQ(weights.Find("score.weight")->shape, (std::vector<int64_t>{2, 16}));
  EXPECT_EQ(weights.Find("lm_head.weight"), nullptr);
  // Experts have no such class, unless they are baked.
  v1::ModelConfig moe = ExportedConfig(4);
  moe.mutable_label_head()->set_regression(true);
  const auto experts = RandomModel(moe);
  v1::ExportRequest request = Request(*experts);
  request.set_force(true);
  EXPECT_FAILS(Export(request), absl::StatusCode::kInvalidArgument,
               "model.label_head: got regression with router CAUSAL_SEGMENT");
  request.set_bake_prompt("the cat");
  ASSERT_OK(Export(request));
  json = Config("out");
  EXPECT_EQ(json["architectures"], nlohmann::json::array({"LlamaForSequenceClassification"}));
  EXPECT_EQ(json["problem_type"], "regression");
  EXPECT_EQ(json["id2label"].size(), 1u);
}

// Returns the settings of a few mixed models, each with tensors of its own.
std::vector<v1::ModelConfig> MixedModels() {
  std::vector<v1::ModelConfig> configs = {ExportedConfig(1), ExportedConfig(1), ExportedConfig(4),
                                          ExportedGpt2(), ExportedGpt2()};
  configs[0].mutable_layer_mixing()->set_alpha(0.9);
  configs[0].mutable_layer_mixing()->set_learn_alpha(true);
  configs[1].mutable_layer_mixing()->set_score(v1::LayerMixing::COSINE);
  configs[1].mutable_layer_mixing()->set_num_chosen(2);
  configs[2].mutable_layer_mixing()->set_gate(v1::LayerMixing::FIXED);
  configs[2].mutable_layer_mixing()->add_fixed(1);
  configs[2].mutable_layer_mixing()->add_fixed(0);
  configs[3].mutable_layer_mixing()->set_own_gates(true);
  configs[4].mutable_layer_mixing()->set_weight(v1::LayerMixing::PROBABILITY);
  for (v1::ModelConfig& config : configs) config = ResolveModelConfig(config).value();
  return configs;
}

TEST_F(ModelExportTest, LayersThatMixAreReadBackToTheSameBytes) {
  int number = 0;
  for (const v1::ModelConfig& config : MixedModels()) {
    const auto model = RandomModel(config);
    v1::ExportRequest request = Request(*model);
    const std::string name = absl::StrCat("mixed-", ++number);
    request.set_output_dir((scratch_ / name).string());
    ASSERT_OK_AND_ASSIGN(const auto response, Export(request));
    EXPECT_EQ(response.architecture(), "BraidMixedLayersForCausalLM");
    const nlohmann::json json = Config(name);
    EXPECT_EQ(json["model_type"], "braid_mixed_layers");
    EXPECT_FALSE(json.contains("auto_map"));
    EXPECT_FALSE(FilesOf(scratch_ / name).contains("modeling_braid.py"));
    v1::ImportRequest import;
    import.set_source_dir((scratch_ / name).string());
    import.set_output_dir((scratch_ / (name + "-read")).string());
    ASSERT_OK_AND_ASSIGN(const auto imported, Import(import));
    EXPECT_EQ(imported.model().layer_mixing().SerializeAsString(),
              config.layer_mixing().SerializeAsString());
    const auto read = LoadModel(import.output_dir()).value();
    EXPECT_TRUE(std::ranges::equal(read->values(), model->values()));
    const std::vector<int32_t> tokens = {3, 5, 7, 9, 11};
    EXPECT_EQ(read->Logits(tokens, 1).value(), model->Logits(tokens, 1).value());
    v1::ExportRequest again;
    again.set_model(import.output_dir());
    again.set_output_dir((scratch_ / (name + "-again")).string());
    ASSERT_OK(Export(again));
    EXPECT_EQ(FilesOf(scratch_ / name), FilesOf(scratch_ / (name + "-again")));
  }
}

TEST_F(ModelExportTest, DamagedSettingsOfMixedLayersAreNamed) {
  const auto model = RandomModel(MixedModels()[0]);
  ASSERT_OK(Export(Request(*model)));
  const nlohmann::json good = Config("out");
  const auto import = [&](const nlohmann::json& json) {
    PutFile(scratch_ / "out/config.json", json.dump());
    v1::ImportRequest request;
    request.set_source_dir((scratch_ / "out").string());
    request.set_output_dir((scratch_ / "read").string());
    return Import(request).status();
  };
  nlohmann::json json = good;
  json["layers_model_type"] = "other";
  EXPECT_FAILS(import(json), absl::StatusCode::kInvalidArgument, "model_type", "layers_model_type");
  json = good;
  json.erase("layer_mixing");
  EXPECT_FAILS(import(json), absl::StatusCode::kInvalidArgument, "layer_mixing: ", "an object");
  json = good;
  json["layer_mixing"]["of_another"] = 1;
  EXPECT_FAILS(import(json), absl::StatusCode::kInvalidArgument, "layer_mixing: got", "of_another");
  json = good;
  json["layer_mixing"]["alpha"] = 7;
  EXPECT_FAILS(import(json), absl::StatusCode::kInvalidArgument, "layer_mixing.alpha: got 7");
}

TEST_F(ModelExportTest, PartsOfAModelWhoseLayersMixAreNotExported) {
  const auto model = RandomModel(MixedModels()[2]);
  v1::ExportRequest request = Request(*model);
  request.set_bake_prompt("the cat");
  EXPECT_FAILS(Export(request), absl::StatusCode::kInvalidArgument, "model: got a model whose",
               "export the whole model");
  request.clear_bake_prompt();
  request.set_adapter(true);
  EXPECT_FAILS(Export(request), absl::StatusCode::kInvalidArgument, "model: got a model whose");
}

TEST_F(ModelExportTest, BadRequestsAreNamed) {
  const auto model = RandomModel(ExportedConfig(1));
  v1::ExportRequest request = Request(*model);
  request.set_dtype("int8");
  EXPECT_FAILS(Export(request), absl::StatusCode::kInvalidArgument, "dtype", "int8", "bfloat16");
  request = Request(*model);
  request.set_bake_prompt("the cat");
  EXPECT_FAILS(Export(request), absl::StatusCode::kInvalidArgument,
               "bake_prompt: got a prompt, but the router is DENSE");
  EXPECT_FALSE(fs::exists(scratch_ / "out"));
  const auto experts = RandomModel(ExportedConfig(4));
  request = Request(*experts);
  request.set_bake_prompt(
      "the cat sat on the mat and ran after the dog, again and again and again");
  EXPECT_FAILS(Export(request), absl::StatusCode::kInvalidArgument, "prompt", "40");
  request = Request(*model);
  request.set_model((scratch_ / "nothing").string());
  EXPECT_FAILS(Export(request), absl::StatusCode::kNotFound, "nothing");
}

}  // namespace model_export_test
}  // namespace braid
