#include "inference/huggingface/chat_jinja.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/atomic_file.h"
#include "inference/huggingface/model_export.h"
#include "inference/huggingface/model_import.h"
#include "model/config/model_config.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/inference/huggingface/exported_models.h"
#include "tests/pipeline/supervised/tiny_tokenizers.h"

namespace braid {
namespace chat_jinja_test {

std::map<std::string, std::string> Tokenizers() {
  return {{"byte-level", ChatTokenizerBytes()}, {"SentencePiece", SentencePieceBytes()}};
}

// transformers 5.23 made the tokens of EncodeChat from the templates of the golden file, version
// 5.24 from those for a tokenizer.json, which differ for SentencePiece models.
TEST(ChatJinjaTest, TemplatesAreThoseThatWereComparedWithTransformers) {
  nlohmann::ordered_json templates;
  for (const auto& [kind, bytes] : Tokenizers()) {
    const std::unique_ptr<Tokenizer> tokenizer = ParseTokenizer(bytes);
    for (const ChatTemplate& chat : ChatTemplates()) {
      const std::string name(chat.name);
      templates[kind][name] = ChatJinja(chat, *tokenizer, tokenizer->eos_id(), true);
      templates[kind + ", tokenizer.json"][name] =
          ChatJinja(chat, *tokenizer, tokenizer->eos_id(), false);
    }
  }
  const std::string golden = std::string(BRAID_GOLDEN_MODELS) + "/chat_templates.json";
  const std::string got = templates.dump(1) + "\n";
  if (std::getenv("BRAID_UPDATE_GOLDEN") != nullptr) PutFile(golden, got);
  EXPECT_EQ(GetFile(golden), got);
}

TEST(ChatJinjaTest, TemplatesAreRecognized) {
  for (const auto& [kind, bytes] : Tokenizers()) {
    const std::unique_ptr<Tokenizer> tokenizer = ParseTokenizer(bytes);
    for (const std::optional<int32_t> start : {std::optional<int32_t>(), {tokenizer->eos_id()}}) {
      for (const ChatTemplate& chat : ChatTemplates()) {
        for (const bool writes_spaces : {false, true}) {
          const std::string jinja = ChatJinja(chat, *tokenizer, start, writes_spaces);
          EXPECT_EQ(ChatTemplateOfJinja(jinja, *tokenizer, start), std::string(chat.name)) << kind;
          EXPECT_EQ(ChatTemplateOfJinja(jinja + " ", *tokenizer, start), std::nullopt);
        }
      }
    }
  }
}

TEST(ChatJinjaTest, ExportedModelsKeepTheirTemplate) {
  const ScratchDirectory scratch;
  for (const auto& [kind, bytes] : Tokenizers()) {
    PutFile(scratch / "tokenizer", bytes);
    const std::unique_ptr<Tokenizer> tokenizer = ParseTokenizer(bytes);
    for (const std::string& name : ChatTemplateNames()) {
      v1::ModelConfig config = ExportedConfig(1);
      config.set_vocab_size(tokenizer->vocab_size());
      config.set_chat_template(name);
      const auto model = RandomModel(config);
      ASSERT_OK(ExportModel(*model, scratch / "tokenizer", {.force = true}, scratch / "exported"));
      const auto generation =
          nlohmann::json::parse(GetFile(scratch / "exported" / "generation_config.json"));
      EXPECT_EQ(generation["eos_token_id"].is_array(),
                kind == "byte-level" && (name == "chatml" || name == "llama3"));
      v1::ImportRequest request;
      request.set_source_dir((scratch / "exported").string());
      request.set_output_dir((scratch / "imported").string());
      request.set_force(true);
      ASSERT_OK_AND_ASSIGN(const v1::ImportResponse imported, Import(request));
      EXPECT_EQ(imported.model().chat_template(), name) << kind;
    }
  }
}

TEST(ChatJinjaTest, AnImportNotesATemplateThatIsUnknown) {
  const ScratchDirectory scratch;
  PutFile(scratch / "tokenizer", ChatTokenizerBytes());
  v1::ModelConfig config = ExportedConfig(1);
  config.set_vocab_size(ParseTokenizer(ChatTokenizerBytes())->vocab_size());
  config.set_chat_template("chatml");
  const auto model = RandomModel(config);
  ASSERT_OK(ExportModel(*model, scratch / "tokenizer", {}, scratch / "exported"));
  const std::filesystem::path settings = scratch / "exported" / "tokenizer_config.json";
  const auto original = nlohmann::json::parse(GetFile(settings));
  const auto expect = [&](const nlohmann::json& field, const std::string& name, bool unknown) {
    nlohmann::json changed = original;
    changed["chat_template"] = field;
    PutFile(settings, changed.dump());
    v1::ImportRequest request;
    request.set_source_dir((scratch / "exported").string());
    request.set_output_dir((scratch / "imported").string());
    request.set_force(true);
    ASSERT_OK_AND_ASSIGN(const v1::ImportResponse imported, Import(request));
    EXPECT_EQ(imported.model().chat_template(), name) << field;
    EXPECT_EQ(imported.model().unknown_chat_template(), unknown) << field;
  };
  const nlohmann::json known = original["chat_template"];
  const std::string other = "{{ messages[0]['content'] }}";
  expect(known, "chatml", false);
  expect(nullptr, "", false);
  expect("", "", false);
  expect(other, "", true);
  const auto named = [](const std::string& name, const nlohmann::json& text) {
    return nlohmann::json{{"name", name}, {"template", text}};
  };
  expect(nlohmann::json::array({named("tool_use", other), named("default", known)}), "chatml",
         false);
  expect(nlohmann::json::array({named("tool_use", known)}), "", true);
  // The newer file comes first.
  PutFile(scratch / "exported" / "chat_template.jinja", other);
  expect(known, "", true);
  PutFile(scratch / "exported" / "chat_template.jinja", known.get<std::string>());
  expect(other, "chatml", false);
}

}  // namespace chat_jinja_test
}  // namespace braid
