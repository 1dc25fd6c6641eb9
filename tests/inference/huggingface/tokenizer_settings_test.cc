#include "inference/huggingface/tokenizer_settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "inference/huggingface/model_export.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/inference/huggingface/exported_models.h"

namespace braid {
namespace tokenizer_settings_test {

using Json = nlohmann::json;

constexpr char kBos[] = "<|begin_of_text|>";

// Returns LLaMA 3's post-processor, which puts BOS before a text.
Json Llama3Processor() {
  const Json bos = {{"type", "TemplateProcessing"},
                    {"single",
                     {{{"SpecialToken", {{"id", kBos}, {"type_id", 0}}}},
                      {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  return {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, bos}}};
}

// Returns a tokenizer.json that has a BOS token.
Json TokenizerWithBos(const Json& processor) {
  Json json = TinyTokenizer({});
  json["added_tokens"].push_back(
      {{"id", json["model"]["vocab"].size() + 1}, {"content", kBos}, {"special", true}});
  json["post_processor"] = processor;
  return json;
}

// Exports a model with the tokenizer; returns the post_processor of the exported tokenizer.json.
Json ExportedProcessor(const Json& tokenizer, v1::StartToken start) {
  const ScratchDirectory scratch;
  PutFile(scratch / "tokenizer.json", tokenizer.dump());
  v1::ModelConfig config = ExportedConfig(1);
  config.set_start_token(start);
  EXPECT_OK(ExportModel(*RandomModel(config), scratch / "tokenizer.json", {}, scratch / "out"));
  Json exported = Json::parse(GetFile(scratch / "out/tokenizer.json"));
  const Json processor = exported["post_processor"];
  exported["post_processor"] = tokenizer["post_processor"];
  EXPECT_EQ(exported, tokenizer) << "changed more than the post_processor";
  return processor;
}

TEST(TokenizerSettingsTest, ExportsPutNoTokenBeforeTextsOfAModelWithoutAStartToken) {
  const Json processor =
      ExportedProcessor(TokenizerWithBos(Llama3Processor()), v1::START_WITH_NONE);
  EXPECT_TRUE(processor.is_null()) << processor;
}

TEST(TokenizerSettingsTest, ExportsPutTheStartTokenOfTheModelBeforeTexts) {
  const Json tokenizer = TokenizerWithBos({{"type", "ByteLevel"}});
  const Json bos = ExportedProcessor(tokenizer, v1::START_WITH_BOS);
  EXPECT_EQ(bos["single"][0]["SpecialToken"]["id"], kBos);
  EXPECT_EQ(bos["special_tokens"][kBos]["ids"][0], tokenizer["added_tokens"][1]["id"]);
  const Json eos = ExportedProcessor(TokenizerWithBos(Llama3Processor()), v1::START_WITH_EOS);
  EXPECT_EQ(eos["single"][0]["SpecialToken"]["id"], "<|endoftext|>");
}

TEST(TokenizerSettingsTest, ExportsKeepAPostProcessorThatFitsTheModel) {
  EXPECT_EQ(ExportedProcessor(TokenizerWithBos(Llama3Processor()), v1::START_WITH_BOS),
            Llama3Processor());
  const Json none = {{"type", "ByteLevel"}};
  EXPECT_EQ(ExportedProcessor(TokenizerWithBos(none), v1::START_WITH_NONE), none);
}

}  // namespace tokenizer_settings_test
}  // namespace braid
