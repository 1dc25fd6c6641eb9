// GPT-2 as files: names, the end of texts, refusals, start tokens.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "formats/safetensors.h"
#include "formats/tokenizer.h"
#include "inference/huggingface/model_export.h"
#include "inference/loaded_model.h"
#include "inference/model_conversion.h"
#include "inference/prompt.h"
#include "inference/text_generation.h"
#include "model/config/finetuning_config.h"
#include "runs/start_token.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/inference/huggingface/model_import_fixture.h"

namespace braid {
namespace gpt2_files_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Gpt2FilesTest : public ModelImportTest {
 protected:
  static fs::path Golden() { return fs::path(BRAID_GOLDEN_MODELS) / "gpt2"; }

  absl::StatusOr<v1::ImportResponse> ImportGolden() {
    v1::ImportRequest request = Request();
    request.set_source_dir(Golden().string());
    request.set_tokenizer(TestTokenizerPath().string());
    request.set_force(true);
    return Import(request);
  }
};

TEST_F(Gpt2FilesTest, TextsEndAtTheLastPosition) {
  ASSERT_OK_AND_ASSIGN(const auto imported, ImportGolden());
  ASSERT_OK_AND_ASSIGN(LoadedModel loaded, LoadedModel::Load(imported.output_dir(), true));
  v1::GenerateRequest request;
  request.set_prompt("the cat");
  request.set_max_tokens(200);
  request.set_temperature(0);
  const auto prompt = static_cast<int64_t>(
      PromptTokens(loaded.model->config(), *loaded.tokenizer, request.prompt()).size());
  for (const int beams : {1, 3}) {
    request.set_num_beams(beams);
    ASSERT_OK_AND_ASSIGN(const auto text,
                         TextGeneration::Create(request, *loaded.model, *loaded.tokenizer));
    v1::GenerateEvent event;
    while (!text->done()) {
      ASSERT_OK_AND_ASSIGN(event, text->Advance());
    }
    EXPECT_GT(event.num_tokens(), 0);
    // The token after the last position is predicted, but has no position.
    EXPECT_LE(prompt + event.num_tokens(), 41) << beams;
  }
  std::string longer;
  for (int i = 0; i < 50; ++i) longer += "the cat ";
  request.set_prompt(longer);
  ASSERT_OK_AND_ASSIGN(const auto text,
                       TextGeneration::Create(request, *loaded.model, *loaded.tokenizer));
  EXPECT_FAILS(text->Advance(), absl::StatusCode::kInvalidArgument, "prompt: got",
               "expected at most 40");
}

// The files of OpenAI name tensors without a prefix and store causal masks.
TEST_F(Gpt2FilesTest, ReadsBareNamesAndIgnoresMasks) {
  const auto model = RandomModel(ExportedGpt2());
  PutSource(*model);
  for (const bool bare : {false, true}) {
    ChangeTensors([&](std::map<std::string, RawTensor>& tensors) {
      std::map<std::string, RawTensor> changed;
      for (const auto& [name, tensor] : tensors) {
        const std::string to = bare && name.starts_with("transformer.") ? name.substr(12) : name;
        changed[to] = tensor;
        changed[to].info.name = to;
      }
      const std::string layer = bare ? "h.0.attn." : "transformer.h.0.attn.";
      for (const char* name : {"bias", "masked_bias"}) {
        changed[layer + name] = {{layer + name, DType::kF32, {1}}, std::string(4, '\0')};
      }
      tensors = changed;
    });
    ASSERT_OK_AND_ASSIGN(const auto imported, ImportedModel());
    EXPECT_TRUE(std::ranges::equal(imported->values(), model->values()));
  }
  // A tied head may be stored too, and must then be the embedding.
  ChangeTensors([](auto& tensors) {
    tensors["lm_head.weight"] = tensors["wte.weight"];
    tensors["lm_head.weight"].info.name = "lm_head.weight";
  });
  EXPECT_OK(ImportedModel());
  ChangeTensors([](auto& tensors) { tensors["lm_head.weight"].bytes[3] ^= 1; });
  EXPECT_FAILS(ImportedModel(), absl::StatusCode::kInvalidArgument, "lm_head.weight",
               "differs from wte.weight");
}

TEST_F(Gpt2FilesTest, OtherFunctionsAreRefusedByName) {
  PutSource(*RandomModel(ExportedGpt2()));
  const std::string whole = GetFile(source() / "config.json");
  const auto with = [&](const char* field, const Json& value) {
    PutFile(source() / "config.json", whole);
    ChangeConfig([&](Json& config) { config[field] = value; });
    return ImportedModel();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_FAILS(with("activation_function", "gelu"), invalid, "activation_function: got \"gelu\"",
               "gelu_new");
  EXPECT_FAILS(with("scale_attn_by_inverse_layer_idx", true), invalid,
               "scale_attn_by_inverse_layer_idx: got true");
  EXPECT_FAILS(with("scale_attn_weights", false), invalid, "scale_attn_weights: got false");
  EXPECT_FAILS(with("add_cross_attention", true), invalid, "add_cross_attention: got true");
  EXPECT_FAILS(with("tie_word_embeddings", false), invalid, "tie_word_embeddings: got false");
  EXPECT_FAILS(with("n_embd", 0), invalid, "n_embd: got 0");
  EXPECT_OK(with("activation_function", "gelu_pytorch_tanh"));
  EXPECT_OK(with("reorder_and_upcast_attn", true));
  EXPECT_FAILS(with("n_inner", nullptr), invalid, "c_fc", "expected");
}

TEST_F(Gpt2FilesTest, TheStartTokenIsThatOfConfigJson) {
  PutSource(*RandomModel(ExportedGpt2()));
  const auto start = [&](const Json& begin) {
    ChangeConfig([&](Json& config) { config["bos_token_id"] = begin; });
    return ImportedModel().value()->config().start_token();
  };
  const Json end = Json::parse(GetFile(source() / "config.json"))["eos_token_id"];
  EXPECT_EQ(start(end), v1::START_TOKEN_UNSPECIFIED) << "the end of the text before";
  EXPECT_EQ(start(TestTokenizer().bos_id()), v1::START_WITH_BOS);
  EXPECT_EQ(start(nullptr), v1::START_WITH_NONE);
  v1::ExportRequest again;
  again.set_model((scratch_ / "imported").string());
  again.set_output_dir((scratch_ / "again").string());
  ASSERT_OK(Export(again));
  v1::ImportRequest request = Request();
  request.set_source_dir(again.output_dir());
  request.set_force(true);
  EXPECT_EQ(Import(request)->model().start_token(), v1::START_WITH_NONE);
}

TEST_F(Gpt2FilesTest, ReadsVocabularyAndMerges) {
  const Json tokenizer = TinyTokenizer({});
  v1::ModelConfig config = ExportedGpt2();
  config.set_vocab_size(300);
  PutSource(*RandomModel(config));
  for (const char* name :
       {"tokenizer.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}) {
    fs::remove(source() / name);
  }
  Json vocabulary = tokenizer["model"]["vocab"];
  vocabulary["<|endoftext|>"] = vocabulary.size();
  std::string merges = "#version: 0.2\n";
  for (const Json& pair : tokenizer["model"]["merges"]) {
    merges += pair[0].get<std::string>() + " " + pair[1].get<std::string>() + "\n";
  }
  PutFile(source() / "vocab.json", vocabulary.dump());
  PutFile(source() / "merges.txt", merges);
  ASSERT_OK_AND_ASSIGN(const auto imported, Import(Request()));
  ASSERT_OK_AND_ASSIGN(const auto read,
                       Tokenizer::Load(fs::path(imported.output_dir()) / "tokenizer.model"));
  EXPECT_EQ(read->Piece(read->eos_id()), "<|endoftext|>");
  EXPECT_EQ(StartTokenId(imported.model(), *read), read->eos_id());
}

TEST_F(Gpt2FilesTest, LabelHeadsAreExportedForSequenceClassification) {
  v1::ModelConfig config = ExportedGpt2();
  config.mutable_label_head()->add_classes("no");
  config.mutable_label_head()->add_classes("yes");
  const auto model = RandomModel(config);
  const fs::path out = scratch_ / "labels";
  ASSERT_OK(ExportModel(*model, TestTokenizerPath(), {}, out));
  const Json json = Json::parse(*ReadFile(out / "config.json"));
  EXPECT_EQ(json["architectures"], Json::array({"GPT2ForSequenceClassification"}));
  EXPECT_EQ(json["id2label"], Json({{"0", "no"}, {"1", "yes"}}));
  ASSERT_OK_AND_ASSIGN(auto weights, SafetensorsFile::Open(out / "model.safetensors"));
  ASSERT_NE(weights.Find("score.weight"), nullptr);
  EXPECT_EQ(weights.Find("score.weight")->shape, (std::vector<int64_t>{2, 16}));
  v1::ImportRequest request = Request();
  request.set_source_dir(out.string());
  ASSERT_OK_AND_ASSIGN(const auto imported, Import(request));
  EXPECT_EQ(imported.model().label_head().classes_size(), 2);
  ASSERT_OK_AND_ASSIGN(const auto loaded, LoadModel(imported.output_dir()));
  EXPECT_TRUE(std::ranges::equal(loaded->values(), model->values()));
}

TEST_F(Gpt2FilesTest, ExpertsAndOtherAdaptersAreRefusedWithWhatToDo) {
  const auto dense = RandomModel(ExportedGpt2());
  v1::ExpertSplit split;
  split.set_num_experts(4);
  split.set_method(v1::ExpertSplit::KEYS);
  ASSERT_OK_AND_ASSIGN(const auto experts, SplitIntoExperts(*dense, split));
  EXPECT_FAILS(ExportModel(*experts.model, TestTokenizerPath(), {}, scratch_ / "experts"),
               absl::StatusCode::kInvalidArgument, "got experts of the family GPT2",
               "braid convert --dense");
  ASSERT_OK_AND_ASSIGN(const auto base, ImportGolden());
  v1::ImportRequest request = Request();
  request.set_source_dir((fs::path(BRAID_GOLDEN_MODELS) / "llama2-adapter").string());
  request.set_base(base.output_dir());
  request.set_output_dir((scratch_ / "adapted").string());
  EXPECT_FAILS(Import(request), absl::StatusCode::kInvalidArgument,
               "expected names such as base_model.model.transformer.h.0.attn.c_attn.lora_A.weight",
               "family GPT2");
}

}  // namespace gpt2_files_test
}  // namespace braid
