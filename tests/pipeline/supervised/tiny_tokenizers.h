// Two small tokenizers: SentencePiece without markers of templates, and a tokenizer.json that has
// those of chatml and llama3 as special tokens.
#ifndef BRAID_TESTS_PIPELINE_SUPERVISED_TINY_TOKENIZERS_H_
#define BRAID_TESTS_PIPELINE_SUPERVISED_TINY_TOKENIZERS_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/tokenizer.h"
#include "tests/base/scratch_directory.h"
#include "tests/formats/tiny_tokenizer_json.h"

namespace braid {

inline const std::string& SentencePieceBytes() {
  static const std::string* const bytes = [] {
    const ScratchDirectory scratch;
    const std::vector<std::string> texts = {
        "Question: is the sentence positive or negative? Answer: positive.",
        "### Instruction: add the numbers. ### Response: the answer is 42.",
        "user and assistant take turns, and the system says how."};
    EXPECT_TRUE(TrainTokenizer(texts, {.vocab_size = 320}, scratch / "tokenizer.model").ok());
    return new std::string(GetFile(scratch / "tokenizer.model"));
  }();
  return *bytes;
}

inline std::string ChatTokenizerBytes() {
  nlohmann::json json = TinyTokenizer({});
  for (const char* token :
       {"<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}) {
    const size_t id = json["model"]["vocab"].size() + json["added_tokens"].size();
    json["added_tokens"].push_back({{"id", id}, {"content", token}, {"special", true}});
  }
  return json.dump();
}

inline std::unique_ptr<Tokenizer> ParseTokenizer(const std::string& bytes) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Parse(bytes, "tiny");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_SUPERVISED_TINY_TOKENIZERS_H_
