#include "retrieval/sentence_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "retrieval/contriever_directory.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/retrieval/tiny_bert.h"

namespace braid {
namespace sentence_model_test {

namespace fs = std::filesystem;

constexpr char kModules[] = R"([
  {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
  {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
  {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}])";

class SentenceModelTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(directory() / "1_Pooling");
    PutFile(directory() / "modules.json", kModules);
    PutPooling(R"({"word_embedding_dimension": 24, "pooling_mode_mean_tokens": true})");
  }
  fs::path directory() const { return scratch_.path(); }
  void PutPooling(const std::string& json) const {
    PutFile(directory() / "1_Pooling" / "config.json", json);
  }

  ScratchDirectory scratch_;
};

TEST_F(SentenceModelTest, ReadsEveryModeOfPooling) {
  for (const auto& [field, pooling] : {std::pair("pooling_mode_mean_tokens", Pooling::kMean),
                                       std::pair("pooling_mode_cls_token", Pooling::kClassify),
                                       std::pair("pooling_mode_lasttoken", Pooling::kLastToken)}) {
    PutPooling(std::string("{\"word_embedding_dimension\": 24, \"pooling_mode_max_tokens\": false, "
                           "\"include_prompt\": true, \"") +
               field + "\": true}");
    ASSERT_OK_AND_ASSIGN(const SentenceModel model, ReadSentenceModel(directory()));
    EXPECT_EQ(model.pooling, pooling) << field;
    EXPECT_EQ(model.dimension, 24);
    EXPECT_EQ(model.encoder, directory());
    EXPECT_EQ(model.prefix, "");
  }
}

TEST_F(SentenceModelTest, ReadsTheLimitAndTheDefaultPrompt) {
  PutFile(directory() / "sentence_bert_config.json",
          R"({"max_seq_length": 17, "do_lower_case": false})");
  PutFile(directory() / "config_sentence_transformers.json",
          R"({"prompts": {"query": "query: ", "document": "passage: "},
              "default_prompt_name": "document"})");
  ASSERT_OK_AND_ASSIGN(const SentenceModel model, ReadSentenceModel(directory()));
  EXPECT_EQ(model.max_tokens, 17);
  EXPECT_EQ(model.prefix, "passage: ");
  WriteTinyBert({}, directory());
  ASSERT_OK_AND_ASSIGN(const auto files, ContrieverDirectory::Open(directory(), 0));
  EXPECT_EQ(files.max_tokens, 17);
  EXPECT_EQ(files.prefix, "passage: ");
  ASSERT_OK_AND_ASSIGN(const auto given, ContrieverDirectory::Open(directory(), 30, "query: "));
  EXPECT_EQ(given.max_tokens, 30);
  EXPECT_EQ(given.prefix, "query: ");
}

// The files that version 6 of sentence-transformers writes.
TEST_F(SentenceModelTest, ReadsTheLayoutOfVersionSix) {
  for (const auto& [mode, pooling] :
       {std::pair("mean", Pooling::kMean), std::pair("cls", Pooling::kClassify),
        std::pair("lasttoken", Pooling::kLastToken)}) {
    PutPooling(std::string(R"({"embedding_dimension": 24, "include_prompt": true,)") +
               R"("pooling_mode": ")" + mode + "\"}");
    PutFile(directory() / "sentence_bert_config.json",
            R"({"transformer_task": "feature-extraction"})");
    PutFile(directory() / "tokenizer_config.json",
            R"({"model_max_length": 1000000000000000019884624838656})");
    ASSERT_OK_AND_ASSIGN(const SentenceModel model, ReadSentenceModel(directory()));
    EXPECT_EQ(model.pooling, pooling) << mode;
    EXPECT_EQ(model.dimension, 24);
    EXPECT_EQ(model.max_tokens, std::nullopt);
  }
  PutFile(directory() / "tokenizer_config.json", R"({"model_max_length": 19})");
  ASSERT_OK_AND_ASSIGN(const SentenceModel limited, ReadSentenceModel(directory()));
  EXPECT_EQ(limited.max_tokens, 19);
  PutFile(directory() / "sentence_bert_config.json", R"({"max_seq_length": 17})");
  ASSERT_OK_AND_ASSIGN(const SentenceModel given, ReadSentenceModel(directory()));
  EXPECT_EQ(given.max_tokens, 17);
}

TEST_F(SentenceModelTest, FindsTheEncoderInItsOwnFolder) {
  std::string modules = kModules;
  modules.replace(modules.find("\"path\": \"\""), 10, "\"path\": \"0_Transformer\"");
  PutFile(directory() / "modules.json", modules);
  WriteTinyBert({}, directory() / "0_Transformer");
  ASSERT_OK(ContrieverDirectory::Open(directory(), 0));
}

TEST_F(SentenceModelTest, FingerprintsNameWhatDecidesVectors) {
  WriteTinyBert({}, directory());
  std::vector<std::string> fingerprints;
  const auto add = [&](const std::optional<std::string>& prefix) {
    const auto files = ContrieverDirectory::Open(directory(), 0, prefix);
    ASSERT_OK(files);
    ASSERT_OK_AND_ASSIGN(const std::string fingerprint, files->Fingerprint());
    EXPECT_THAT(fingerprints, testing::Not(testing::Contains(fingerprint)));
    fingerprints.push_back(fingerprint);
  };
  add(std::nullopt);
  add("passage: ");
  PutPooling(R"({"word_embedding_dimension": 24, "pooling_mode_cls_token": true})");
  add(std::nullopt);
}

TEST_F(SentenceModelTest, CutFilesAreErrorsThatNameThem) {
  for (const std::string file : {"modules.json", "1_Pooling/config.json"}) {
    const std::string whole = *ReadFile(directory() / file);
    for (size_t size = 0; size < whole.size(); ++size) {
      PutFile(directory() / file, whole.substr(0, size));
      EXPECT_FAILS(ReadSentenceModel(directory()), absl::StatusCode::kInvalidArgument, file);
    }
    PutFile(directory() / file, whole);
  }
  EXPECT_OK(ReadSentenceModel(directory()));
}

TEST_F(SentenceModelTest, RefusesWhatItDoesNotSupportByName) {
  struct Bad {
    const char *file, *text;
    std::vector<std::string> parts;
  };
  const std::vector<Bad> cases = {
      {"1_Pooling/config.json",
       R"({"word_embedding_dimension": 24, "pooling_mode_max_tokens": true})",
       {"pooling_mode_max_tokens", "got true", "mean_tokens, cls_token, lasttoken"}},
      {"1_Pooling/config.json",
       R"({"word_embedding_dimension": 24, "pooling_mode_mean_tokens": true,
           "pooling_mode_cls_token": true})",
       {"exactly one", "not 2"}},
      {"1_Pooling/config.json", R"({"word_embedding_dimension": 24})", {"exactly one", "not 0"}},
      {"1_Pooling/config.json",
       R"({"word_embedding_dimension": 24, "pooling_mode_mean_tokens": "yes"})",
       {"pooling_mode_mean_tokens", "true or false"}},
      {"1_Pooling/config.json",
       R"({"pooling_mode_mean_tokens": true})",
       {"word_embedding_dimension"}},
      {"1_Pooling/config.json",
       R"({"word_embedding_dimension": 24, "pooling_mode_mean_tokens": true,
           "include_prompt": false})",
       {"include_prompt"}},
      {"1_Pooling/config.json", "{", {"1_Pooling/config.json"}},
      {"modules.json", "{}", {"modules.json", "list"}},
      {"modules.json", "[]", {"0 modules", "Transformer, Pooling"}},
      {"modules.json",
       R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
           {"path": "1", "type": "sentence_transformers.models.Pooling"},
           {"path": "2", "type": "sentence_transformers.models.Dense"}])",
       {"\"Dense\" at place 2", "Normalize"}},
      {"modules.json",
       R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
           {"path": "../x", "type": "sentence_transformers.models.Pooling"}])",
       {"\"../x\"", "within the directory"}},
      {"sentence_bert_config.json", R"({"max_seq_length": 1})", {"max_seq_length", "3"}},
      {"sentence_bert_config.json", R"({"do_lower_case": true})", {"do_lower_case"}},
      {"config_sentence_transformers.json",
       R"({"default_prompt_name": "q", "prompts": {}})",
       {"default_prompt_name", "\"q\"", "one of prompts"}},
  };
  for (const Bad& bad : cases) {
    SetUp();
    PutFile(directory() / bad.file, bad.text);
    const absl::Status status = ReadSentenceModel(directory()).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.text;
    for (const std::string& part : bad.parts) {
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr(part)) << bad.text;
    }
    fs::remove(directory() / bad.file);
  }
  SetUp();
  fs::remove(directory() / "1_Pooling" / "config.json");
  EXPECT_FAILS(ReadSentenceModel(directory()), absl::StatusCode::kNotFound, "1_Pooling");
  SetUp();
  PutPooling(R"({"word_embedding_dimension": 25, "pooling_mode_mean_tokens": true})");
  WriteTinyBert({}, directory());
  EXPECT_FAILS(ContrieverDirectory::Open(directory(), 0), absl::StatusCode::kInvalidArgument,
               "word_embedding_dimension", "25", "24");
}

}  // namespace sentence_model_test
}  // namespace braid
