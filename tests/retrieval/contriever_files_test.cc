// Invalid model directories.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "retrieval/contriever_config.h"
#include "retrieval/contriever_directory.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/retrieval/tiny_bert.h"

namespace braid {
namespace contriever_files_test {

using Json = nlohmann::json;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<ContrieverConfig> ParseWith(const char* field, const Json& value) {
  Json json = Json::parse(ConfigJson(TinyBert().config));
  json[field] = value;
  return ParseContrieverConfig(json.dump(), "dir/config.json");
}

TEST(ContrieverConfigTest, ReadsTheShape) {
  ASSERT_OK_AND_ASSIGN(const ContrieverConfig config,
                       ParseContrieverConfig(ConfigJson(TinyBert().config), "config.json"));
  EXPECT_EQ(config.hidden_size, 24);
  EXPECT_EQ(config.num_attention_heads, 3);
  EXPECT_EQ(config.layer_norm_eps, 1e-12);
  EXPECT_OK(ParseWith("position_embedding_type", nullptr));
  EXPECT_OK(ParseWith("model_type", nullptr));
  EXPECT_OK(ParseWith("something_of_training", 3));
}

TEST(ContrieverConfigTest, ErrorsNameTheField) {
  const std::vector<std::pair<const char*, Json>> wrong = {
      {"model_type", "roberta"},
      {"hidden_act", "gelu_new"},
      {"hidden_act", "relu"},
      {"position_embedding_type", "relative_key"},
      {"is_decoder", true},
      {"add_cross_attention", true},
      {"quantization_config", Json::object()},
      {"vocab_size", 0},
      {"vocab_size", nullptr},
      {"vocab_size", 2e6},
      {"hidden_size", "24"},
      {"hidden_size", -24},
      {"num_attention_heads", 5},
      {"num_attention_heads", 2.5},
      {"num_hidden_layers", 100000},
      {"intermediate_size", 0},
      {"max_position_embeddings", 2},
      {"type_vocab_size", 0},
      {"layer_norm_eps", 0},
      {"layer_norm_eps", "small"},
  };
  for (const auto& [field, value] : wrong) {
    EXPECT_FAILS(ParseWith(field, value), kInvalid, "dir/config.json", field, "got", "expected");
  }
  EXPECT_FAILS(ParseContrieverConfig("[]", "c"), kInvalid, "object");
  EXPECT_FAILS(ParseContrieverConfig("{", "c"), kInvalid);
}

class ContrieverDirectoryTest : public testing::Test {
 protected:
  absl::Status Open(int32_t max_tokens = 0) const {
    return ContrieverDirectory::Open(scratch_.path(), max_tokens).status();
  }
  // Returns the error for weights with one tensor renamed, or removed if the new name is "".
  absl::Status OpenRenamed(const std::string& from, const std::string& to) {
    TinyBert bert;
    bert.rename = [&](const std::string& name) { return name == from ? to : name; };
    WriteTinyBert(bert, scratch_.path());
    return Open();
  }

  ScratchDirectory scratch_;
};

TEST_F(ContrieverDirectoryTest, ErrorsNameMissingAndUnknownTensors) {
  const std::string bias = "encoder.layer.1.output.dense.bias";
  EXPECT_FAILS(OpenRenamed(bias, ""), kInvalid, bias, "[24]");
  EXPECT_FAILS(OpenRenamed(bias, "other.bias"), kInvalid, bias);
  TinyBert extra;
  extra.extra = {{"encoder.layer.2.output.dense.bias", DType::kF32, {24}}};
  WriteTinyBert(extra, scratch_.path());
  EXPECT_FAILS(Open(), kInvalid, "encoder.layer.2.output.dense.bias", "2 layers");
  TinyBert twice;
  twice.extra = {{"bert.embeddings.LayerNorm.gamma", DType::kF32, {24}}};
  WriteTinyBert(twice, scratch_.path());
  EXPECT_FAILS(Open(), kInvalid, "twice", "bert.embeddings.LayerNorm.gamma");
}

TEST_F(ContrieverDirectoryTest, ErrorsNameATensorOfAnotherShape) {
  WriteTinyBert({}, scratch_.path());
  TinyBert larger;
  larger.config.intermediate_size = 41;
  PutFile(scratch_ / "config.json", ConfigJson(larger.config));
  EXPECT_FAILS(Open(), kInvalid, "encoder.layer.0.intermediate.dense.weight", "[40, 24]",
               "[41, 24]");
}

TEST_F(ContrieverDirectoryTest, NeverReadsPickledWeights) {
  WriteTinyBert({}, scratch_.path());
  std::filesystem::rename(scratch_ / "model.safetensors", scratch_ / "pytorch_model.bin");
  EXPECT_FAILS(Open(), absl::StatusCode::kNotFound, "pytorch_model.bin", "safe_serialization");
}

TEST_F(ContrieverDirectoryTest, ChecksTokensAndVocabularyAgainstTheModel) {
  WriteTinyBert({}, scratch_.path());
  EXPECT_OK(Open());
  EXPECT_OK(Open(32));
  EXPECT_FAILS(Open(33), kInvalid, "max_tokens", "33", "32");
  EXPECT_FAILS(Open(2), kInvalid, "max_tokens");
  EXPECT_FAILS(Open(-1), kInvalid, "max_tokens");
  PutFile(scratch_ / "vocab.txt", GetFile(scratch_ / "vocab.txt") + "more\n");
  EXPECT_FAILS(Open(), kInvalid, "the tokenizer has 61", "60");
  std::filesystem::remove(scratch_ / "vocab.txt");
  EXPECT_FAILS(Open(), absl::StatusCode::kNotFound, "vocab.txt");
  std::filesystem::remove(scratch_ / "config.json");
  EXPECT_FAILS(Open(), absl::StatusCode::kNotFound, "config.json");
}

TEST_F(ContrieverDirectoryTest, RefusesDamagedWeights) {
  WriteTinyBert({}, scratch_.path());
  const std::string whole = GetFile(scratch_ / "model.safetensors");
  PutFile(scratch_ / "model.safetensors", whole.substr(0, whole.size() - 1));
  EXPECT_FAILS(Open(), absl::StatusCode::kDataLoss, "model.safetensors");
}

}  // namespace contriever_files_test
}  // namespace braid
