// Import of every architecture: tensors, logits, padded embeddings, start tokens, memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "formats/npy.h"
#include "formats/tokenizer.h"
#include "formats/weight_files.h"
#include "inference/huggingface/config_json.h"
#include "inference/huggingface/tokenizer_settings.h"
#include "inference/loaded_model.h"
#include "inference/text_generation.h"
#include "model/config/attention_config.h"
#include "model/config/decoder.h"
#include "runs/checkpoint.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/inference/huggingface/model_import_fixture.h"

namespace braid {
namespace imported_architectures_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class ImportedArchitecturesTest : public ModelImportTest {
 protected:
  static fs::path Golden(const char* name) { return fs::path(BRAID_GOLDEN_MODELS) / name; }

  // Imports a model that transformers saved (tests/peers/transformers_golden.py).
  absl::StatusOr<v1::ImportResponse> ImportGolden(const char* name) {
    v1::ImportRequest request = Request();
    request.set_source_dir(Golden(name).string());
    request.set_tokenizer(TestTokenizerPath().string());
    request.set_force(true);
    return Import(request);
  }

  static std::vector<int32_t> GoldenTokens() {
    std::vector<int32_t> tokens;
    for (int i = 0; i < 9; ++i) tokens.push_back((37 * i + 5) % 280);
    return tokens;
  }
};

// Grouped queries, RoPE of LLaMA 3 and tied embeddings; biases; GPT-2.
constexpr const char* kTrainedModels[] = {"llama3", "qwen2", "gpt2"};

// Every architecture, element type and number of files: import and export give the same tensors,
// byte for byte, and the same configuration.
TEST_F(ImportedArchitecturesTest, ExportGivesTheImportedTensorsByteForByte) {
  std::vector<v1::ModelConfig> configs = ExportedArchitectures();
  configs.push_back(ExportedGpt2());
  for (const v1::ModelConfig& config : configs) {
    SCOPED_TRACE(config.ShortDebugString());
    const auto model = RandomModel(config);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      PutSource(*model, {.dtype = dtype, .max_shard_bytes = 3000});
      v1::ImportRequest request = Request();
      request.set_force(true);
      ASSERT_OK_AND_ASSIGN(const auto imported, Import(request));
      EXPECT_EQ(imported.model().DebugString(), config.DebugString());
      v1::ExportRequest again;
      again.set_model(imported.output_dir());
      again.set_output_dir((scratch_ / "again").string());
      again.set_max_shard_bytes(3000);
      again.set_force(true);
      ASSERT_OK(Export(again));
      EXPECT_EQ(FilesOf(scratch_ / "again"), FilesOf(source()));
    }
  }
}

TEST_F(ImportedArchitecturesTest, OneTrainingStepHasTheGradientsOfTransformers) {
  SetModelThreads(1);
  const std::vector<int32_t> tokens = GoldenTokens();
  std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
  targets.push_back(-1);
  for (const char* name : kTrainedModels) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const auto imported, ImportGolden(name));
    ASSERT_OK_AND_ASSIGN(const auto model, LoadModel(imported.output_dir()));
    ASSERT_OK(model->ForwardBackward(tokens, targets, 1, 1, false));
    // An export of the gradients has the names and layout of theirs.
    std::ranges::copy(model->gradients(), model->values().begin());
    PutSource(*model);
    ASSERT_OK_AND_ASSIGN(const auto ours, SafetensorsFile::Open(source() / "model.safetensors"));
    ASSERT_OK_AND_ASSIGN(const auto theirs,
                         SafetensorsFile::Open(Golden(name) / "gradients.safetensors"));
    ASSERT_EQ(ours.tensors().size(), theirs.tensors().size());
    for (const TensorInfo& tensor : theirs.tensors()) {
      ASSERT_OK_AND_ASSIGN(const auto expected, theirs.Float(tensor.name));
      ASSERT_OK_AND_ASSIGN(const auto got, ours.Float(tensor.name));
      ASSERT_EQ(got.size(), expected.size()) << tensor.name;
      double largest = 0;
      for (const float value : expected) largest = std::max<double>(largest, std::abs(value));
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[i], 1e-4 * std::max(largest, 1.0)) << tensor.name << " " << i;
      }
    }
  }
}

TEST_F(ImportedArchitecturesTest, GreedyDecodingGivesTheTokensOfTransformers) {
  for (const char* name : kTrainedModels) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const auto imported, ImportGolden(name));
    ASSERT_OK_AND_ASSIGN(const auto model, LoadModel(imported.output_dir()));
    ASSERT_OK_AND_ASSIGN(const auto expected, NpyArray<int32_t>::Open(Golden(name) / "greedy.npy"));
    const auto decoder = model->NewDecoder(MergeMode::kPrompt);
    ASSERT_OK_AND_ASSIGN(std::vector<float> logits, decoder->Prefill(GoldenTokens()));
    for (const int32_t token : expected.values()) {
      // Rows beyond the tokenizer's pieces are not predicted.
      const auto best = std::max_element(logits.begin(), logits.begin() + 280) - logits.begin();
      ASSERT_EQ(best, token);
      ASSERT_OK_AND_ASSIGN(logits, decoder->Step(token));
    }
  }
}

TEST_F(ImportedArchitecturesTest, ModelsOfTransformersGiveItsLogitsAndTheirOwnTensors) {
  SetModelThreads(1);
  const std::vector<int32_t> tokens = GoldenTokens();
  for (const char* name :
       {"llama2", "llama3", "linear", "mistral", "mixtral", "qwen2", "qwen3", "gpt2"}) {
    SCOPED_TRACE(name);
    const fs::path golden = Golden(name);
    ASSERT_OK_AND_ASSIGN(const auto imported, ImportGolden(name));
    ASSERT_OK_AND_ASSIGN(const auto model, LoadModel(imported.output_dir()));
    ASSERT_OK_AND_ASSIGN(const std::vector<float> logits, model->Logits(tokens, 1));
    ASSERT_OK_AND_ASSIGN(const auto expected, NpyArray<float>::Open(golden / "logits.npy"));
    const std::span<const float> theirs = expected.values();
    ASSERT_EQ(logits.size(), theirs.size());
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], theirs[i], 1e-4) << i;

    v1::ExportRequest again;
    again.set_model(imported.output_dir());
    again.set_output_dir((scratch_ / "again").string());
    again.set_force(true);
    ASSERT_OK(Export(again));
    ASSERT_OK_AND_ASSIGN(const WeightFiles before, WeightFiles::Open(golden));
    ASSERT_OK_AND_ASSIGN(const WeightFiles after, WeightFiles::Open(scratch_ / "again"));
    ASSERT_EQ(after.names(), before.names());
    for (const std::string& tensor : before.names()) {
      EXPECT_EQ(*after.Find(tensor), *before.Find(tensor));
      EXPECT_EQ(*after.Bytes(tensor), *before.Bytes(tensor)) << tensor;
    }
  }
}

// Weights of mixed types are exported in the type that holds all of them.
TEST_F(ImportedArchitecturesTest, MixedTypesBecomeSinglePrecision) {
  const auto model = RandomModel(ExportedConfig(1));
  PutSource(*model, {.dtype = DType::kBF16});
  ChangeTensors([](auto& tensors) {
    RawTensor& norm = tensors["model.norm.weight"];
    norm.info.dtype = DType::kF32;
    norm.bytes.assign(64, '\0');
  });
  ASSERT_OK_AND_ASSIGN(const auto imported, Import(Request()));
  EXPECT_EQ(ReadCheckpointState(imported.output_dir())->source_dtype, "");
}

TEST_F(ImportedArchitecturesTest, ReadsMistralAndFieldsThatOtherProgramsWrite) {
  v1::ModelConfig grouped = ExportedConfig(1);
  grouped.set_num_heads(4);
  grouped.set_num_key_value_heads(2);
  PutSource(*RandomModel(grouped));
  const std::string whole = GetFile(source() / "config.json");
  const auto accepts = [&](const std::function<void(Json&)>& change) {
    PutFile(source() / "config.json", whole);
    ChangeConfig(change);
    return ImportedModel();
  };
  EXPECT_OK(accepts([](Json& c) {
    c["model_type"] = "mistral";
    c["sliding_window"] = nullptr;
    c["head_dim"] = nullptr;
  }));
  EXPECT_OK(accepts([](Json& c) {
    c["model_type"] = "mistral";
    c["sliding_window"] = 40;
  }));
  EXPECT_FAILS(accepts([](Json& c) {
                 c["model_type"] = "mistral";
                 c["sliding_window"] = 39;
               }),
               absl::StatusCode::kInvalidArgument, "sliding_window: got 39",
               "max_position_embeddings 40");
  // Qwen states a window that is not in use.
  EXPECT_OK(accepts([](Json& c) {
    c["use_sliding_window"] = false;
    c["sliding_window"] = 8;
  }));
  // The default window of its class.
  EXPECT_FAILS(accepts([](Json& c) {
                 c["model_type"] = "qwen2";
                 c["use_sliding_window"] = true;
                 c["max_position_embeddings"] = 8192;
               }),
               absl::StatusCode::kInvalidArgument, "sliding_window: got nothing",
               "max_position_embeddings 8192");
  EXPECT_FAILS(accepts([](Json& c) {
                 c["layer_types"] = {"full_attention", "sliding_attention"};
               }),
               absl::StatusCode::kInvalidArgument, "layer_types");
  ASSERT_OK_AND_ASSIGN(const auto scaled, accepts([](Json& c) {
                         c.erase("rope_theta");
                         c.erase("rope_scaling");
                         c["rope_parameters"] = {
                             {"rope_type", "llama3"},   {"rope_theta", 5e5},
                             {"factor", 32.0},          {"low_freq_factor", 1.0},
                             {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
                       }));
  EXPECT_EQ(scaled->config().rope_theta(), 5e5);
  EXPECT_EQ(scaled->config().rope_scaling().type(), v1::LLAMA3_ROPE);
  EXPECT_EQ(scaled->config().rope_scaling().factor(), 32);
  EXPECT_EQ(scaled->config().rope_scaling().original_length(), 8192);
}

// Those of the configuration classes of transformers.
TEST(ConfigJsonTest, AbsentFieldsHaveTheDefaultsOfTheFamily) {
  const Json shape = {{"vocab_size", 300},        {"hidden_size", 64},
                      {"intermediate_size", 96},  {"num_hidden_layers", 2},
                      {"num_attention_heads", 8}, {"max_position_embeddings", 8192}};
  const auto parse = [&](const char* model_type, const Json& more = Json::object()) {
    Json config = shape;
    config["model_type"] = model_type;
    config.update(more);
    return ParseConfigJson(config.dump(), "x/config.json");
  };
  ASSERT_OK_AND_ASSIGN(const v1::ModelConfig mixtral, parse("mixtral"));
  EXPECT_EQ(mixtral.rope_theta(), 1e6);
  EXPECT_EQ(mixtral.norm_epsilon(), 1e-5);
  EXPECT_FAILS(parse("mistral"), absl::StatusCode::kInvalidArgument, "sliding_window: got nothing",
               "max_position_embeddings 8192");
  EXPECT_OK(parse("mistral", {{"max_position_embeddings", 4096}}));
  for (const auto& config : {parse("llama"), parse("mistral", {{"sliding_window", nullptr}})}) {
    ASSERT_OK(config);
    EXPECT_EQ(config->rope_theta(), 1e4);
    EXPECT_EQ(config->norm_epsilon(), 1e-6);
  }
}

// As transformers does. The families state 8 or 32 heads for an absent field.
TEST(ConfigJsonTest, NullKeyValueHeadsAreAsManyAsThoseOfQueries) {
  Json config = {{"vocab_size", 300},         {"hidden_size", 64},
                 {"intermediate_size", 96},   {"num_hidden_layers", 2},
                 {"num_attention_heads", 16}, {"max_position_embeddings", 64}};
  for (const char* const type : {"llama", "mistral", "mixtral", "qwen2", "qwen3"}) {
    config["model_type"] = type;
    config["num_key_value_heads"] = nullptr;
    const auto parsed = ParseConfigJson(config.dump(), "x/config.json");
    ASSERT_OK(parsed) << type;
    EXPECT_EQ(HeadsOf(*parsed).key_value, 16) << type;
  }
  config["model_type"] = "mistral";
  config.erase("num_key_value_heads");
  ASSERT_OK_AND_ASSIGN(const v1::ModelConfig absent,
                       ParseConfigJson(config.dump(), "x/config.json"));
  EXPECT_EQ(HeadsOf(absent).key_value, 8);
}

TEST(ConfigJsonTest, MessagesAboutLongValuesAreValidUtf8) {
  std::string dashes;
  for (int i = 0; i < 60; ++i) dashes += "\u2013";
  const Json config = {
      {"model_type", "llama"},         {"vocab_size", 300},           {"hidden_size", 64},
      {"intermediate_size", 96},       {"num_hidden_layers", 2},      {"num_attention_heads", 8},
      {"max_position_embeddings", 64}, {"rope_scaling", "-" + dashes}};
  const std::string message(ParseConfigJson(config.dump(), "x/config.json").status().message());
  EXPECT_NE(message.find("rope_scaling: got \"-"), std::string::npos) << message;
  EXPECT_TRUE(IsValidUtf8(message));
}

// Embeddings beyond the tokenizer's pieces are kept, and generation never predicts them.
TEST_F(ImportedArchitecturesTest, KeepsPaddedEmbeddingsAndNeverPredictsThem) {
  v1::ModelConfig config = ExportedConfig(1);
  const int32_t pieces = config.vocab_size();
  config.set_vocab_size(pieces + 24);
  const auto model = RandomModel(config);
  // The head prefers padding by far.
  Parameter& head = model->parameters().back();
  ASSERT_EQ(head.name, "lm_head.weight");
  for (float& value : head.value.subspan(static_cast<size_t>(pieces) * 16)) value *= 50;
  PutSource(*model);
  ASSERT_OK_AND_ASSIGN(const auto imported, Import(Request()));
  EXPECT_EQ(imported.model().vocab_size(), pieces + 24);
  ASSERT_OK_AND_ASSIGN(LoadedModel loaded, LoadedModel::Load(imported.output_dir(), true));
  EXPECT_TRUE(std::ranges::equal(loaded.model->values(), model->values()));
  for (const double temperature : {0.0, 1.0}) {
    v1::GenerateRequest request;
    request.set_prompt("the cat");
    request.set_max_tokens(30);
    request.set_temperature(temperature);
    ASSERT_OK_AND_ASSIGN(const auto text,
                         TextGeneration::Create(request, *loaded.model, *loaded.tokenizer));
    while (!text->done()) ASSERT_OK(text->Advance());
  }
}

TEST_F(ImportedArchitecturesTest, KeepsTokensAddedToASentencePieceModel) {
  v1::ModelConfig config = ExportedConfig(1);
  const int32_t added = config.vocab_size();
  config.set_vocab_size(added + 8);
  PutSource(*RandomModel(config));
  PutFile(source() / "added_tokens.json", Json{{"<|im_start|>", added}}.dump());
  ASSERT_OK_AND_ASSIGN(const auto imported, Import(Request()));
  ASSERT_OK_AND_ASSIGN(LoadedModel loaded, LoadedModel::Load(imported.output_dir(), true));
  EXPECT_EQ(loaded.tokenizer->FindPiece("<|im_start|>"), added);
}

// The token before a text comes from the tokenizer's settings, and returns with an export.
TEST_F(ImportedArchitecturesTest, KeepsTheStartToken) {
  PutSource(*RandomModel(ExportedConfig(1)));
  const std::string whole = GetFile(source() / "tokenizer_config.json");
  const auto imported = [&](const std::function<void(Json&)>& change) {
    Json settings = Json::parse(whole);
    change(settings);
    PutFile(source() / "tokenizer_config.json", settings.dump());
    v1::ImportRequest request = Request();
    request.set_force(true);
    const v1::StartToken start = Import(request).value().model().start_token();
    v1::ExportRequest again;
    again.set_model(request.output_dir());
    again.set_output_dir((scratch_ / "again").string());
    again.set_force(true);
    EXPECT_OK(Export(again));
    request.set_source_dir((scratch_ / "again").string());
    EXPECT_EQ(Import(request).value().model().start_token(), start);
    return start;
  };
  EXPECT_EQ(imported([](Json&) {}), v1::START_TOKEN_UNSPECIFIED);
  EXPECT_EQ(imported([](Json& s) { s["bos_token"] = "<s>"; }), v1::START_WITH_BOS);
  EXPECT_EQ(imported([](Json& s) { s.erase("bos_token"); }), v1::START_WITH_BOS);
  EXPECT_EQ(imported([](Json& s) { s["add_bos_token"] = false; }), v1::START_WITH_NONE);
}

// LLaMA 3 has BOS in its post-processor, SmolLM2 and Qwen have none.
TEST_F(ImportedArchitecturesTest, StartTokenOfTokenizerJsonIsThatOfItsPostProcessor) {
  Json llama3 = TinyTokenizer({});
  const int64_t id = llama3["model"]["vocab"].size() + 1;
  llama3["added_tokens"].push_back(
      {{"id", id}, {"content", "<|begin_of_text|>"}, {"special", true}});
  const Json bos = {{"type", "TemplateProcessing"},
                    {"single",
                     {{{"SpecialToken", {{"id", "<|begin_of_text|>"}, {"type_id", 0}}}},
                      {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  const auto start = [&](const Json& processor) {
    llama3["post_processor"] = processor;
    const TokenizerFile file{scratch_ / "tokenizer.json", llama3.dump()};
    const auto tokenizer = Tokenizer::Parse(file.bytes, file.path);
    EXPECT_EQ(tokenizer.value()->bos_id(), id);
    return StartTokenOf(file, **tokenizer).value();
  };
  EXPECT_EQ(start(bos), v1::START_WITH_BOS);
  EXPECT_EQ(start({{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, bos}}}),
            v1::START_WITH_BOS);
  EXPECT_EQ(start(nullptr), v1::START_WITH_NONE);
  EXPECT_EQ(start({{"type", "ByteLevel"}, {"trim_offsets", false}}), v1::START_WITH_NONE);
}

int64_t StatusKilobytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoll(line.substr(field.size() + 1));
  }
  return 0;
}

// A model of 30 million parameters, most of them in one tensor.
TEST_F(ImportedArchitecturesTest, NeedsLittleMemory) {
  v1::ModelConfig config = ExportedConfig(1);
  config.set_d_model(256);
  config.set_vocab_size(100000);
  config.set_d_ff(4096);
  config.set_tie_embeddings(true);
  PutSource(*LanguageModel::Create(config, 1).value());
  std::ofstream("/proc/self/clear_refs") << "5" << std::flush;  // resets VmHWM
  const int64_t before = StatusKilobytes("VmRSS:");
  ASSERT_OK_AND_ASSIGN(const auto imported, Import(Request()));
  const auto used = static_cast<double>(StatusKilobytes("VmHWM:") - before) * 1024;
  EXPECT_LT(used, 1.15 * 4 * static_cast<double>(imported.num_parameters()));
  EXPECT_LT(used, 64e6);
}

}  // namespace imported_architectures_test
}  // namespace braid
