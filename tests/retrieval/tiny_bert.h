// Seeded BERT encoders of any shape, written as Hugging Face directories.
#ifndef BRAID_TESTS_RETRIEVAL_TINY_BERT_H_
#define BRAID_TESTS_RETRIEVAL_TINY_BERT_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "formats/safetensors_header.h"
#include "retrieval/contriever_config.h"

namespace braid {

struct TinyBert {
  ContrieverConfig config = {.vocab_size = 60,
                             .hidden_size = 24,
                             .num_hidden_layers = 2,
                             .num_attention_heads = 3,
                             .intermediate_size = 40,
                             .max_position_embeddings = 32,
                             .type_vocab_size = 2,
                             .layer_norm_eps = 1e-12};
  uint32_t seed = 1;
  // Element type of the weights in the file.
  DType dtype = DType::kF32;
  int64_t max_file_bytes = int64_t{1} << 40;
  // Returns the name of a tensor in the file; "": the tensor is omitted.
  std::function<std::string(const std::string&)> rename = nullptr;
  // Additional tensors.
  std::vector<TensorInfo> extra = {};
};

// Writes config.json, the weights and vocab.txt: the letters, as words and as continuations, and as
// many digits as fit into vocab_size.
void WriteTinyBert(const TinyBert& bert, const std::filesystem::path& directory);

std::string ConfigJson(const ContrieverConfig& config);

// Returns seeded text of `num_words` words of letters in the vocabulary.
std::string RandomWords(int num_words, std::mt19937* random);

}  // namespace braid

#endif  // BRAID_TESTS_RETRIEVAL_TINY_BERT_H_
