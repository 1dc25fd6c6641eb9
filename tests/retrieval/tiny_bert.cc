#include "tests/retrieval/tiny_bert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "formats/weight_files.h"
#include "retrieval/contriever_weights.h"
#include "tests/base/scratch_directory.h"

namespace braid {
namespace {

std::string Vocabulary(int32_t size) {
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  for (char c = 'a'; c <= 'z'; ++c) pieces.push_back(std::string(1, c));
  for (char c = 'a'; c <= 'z'; ++c) pieces.push_back(std::string("##") + c);
  for (int i = 0; static_cast<int32_t>(pieces.size()) < size; ++i) {
    pieces.push_back(std::to_string(i));
  }
  pieces.resize(static_cast<size_t>(size));
  std::string text;
  for (const std::string& piece : pieces) text += piece + "\n";
  return text;
}

// Weights larger than initial weights of training, so that every part of the computation matters.
std::vector<float> RandomValues(const TensorInfo& tensor, std::mt19937* random) {
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= extent;
  const bool scale =
      tensor.name.ends_with("LayerNorm.weight") || tensor.name.ends_with("LayerNorm.gamma");
  const double fan_in = tensor.shape.size() == 2 ? static_cast<double>(tensor.shape[1]) : 4.0;
  std::normal_distribution<float> normal(
      scale ? 1.0f : 0.0f, scale ? 0.2f : static_cast<float>(1.2 / std::sqrt(fan_in)));
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(*random);
  return values;
}

}  // namespace

std::string ConfigJson(const ContrieverConfig& config) {
  const nlohmann::json json = {{"model_type", "bert"},
                               {"architectures", {"Contriever"}},
                               {"vocab_size", config.vocab_size},
                               {"hidden_size", config.hidden_size},
                               {"num_hidden_layers", config.num_hidden_layers},
                               {"num_attention_heads", config.num_attention_heads},
                               {"intermediate_size", config.intermediate_size},
                               {"max_position_embeddings", config.max_position_embeddings},
                               {"type_vocab_size", config.type_vocab_size},
                               {"layer_norm_eps", config.layer_norm_eps},
                               {"hidden_act", "gelu"},
                               {"hidden_dropout_prob", 0.1},
                               {"position_embedding_type", "absolute"}};
  return json.dump(2);
}

void WriteTinyBert(const TinyBert& bert, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  PutFile(directory / "config.json", ConfigJson(bert.config));
  PutFile(directory / "vocab.txt", Vocabulary(bert.config.vocab_size));
  std::vector<TensorInfo> tensors;
  for (TensorInfo tensor : ContrieverTensors(bert.config)) {
    if (bert.rename) tensor.name = bert.rename(tensor.name);
    tensor.dtype = bert.dtype;
    if (!tensor.name.empty()) tensors.push_back(tensor);
  }
  tensors.insert(tensors.end(), bert.extra.begin(), bert.extra.end());
  std::mt19937 random(bert.seed);
  std::vector<float> values;
  const auto written = WriteWeightFiles(
      directory,
      {.tensors = tensors,
       .values = [&](const TensorInfo& tensor) -> absl::StatusOr<std::span<const float>> {
         values = RandomValues(tensor, &random);
         return std::span<const float>(values);
       },
       .max_file_bytes = bert.max_file_bytes});
  EXPECT_TRUE(written.ok()) << written.status();
}

std::string RandomWords(int num_words, std::mt19937* random) {
  std::string text;
  for (int i = 0; i < num_words; ++i) {
    if (i > 0) text += ' ';
    const uint32_t letters = 1 + (*random)() % 6;
    for (uint32_t j = 0; j < letters; ++j) text += static_cast<char>('a' + (*random)() % 26);
  }
  return text;
}

}  // namespace braid
