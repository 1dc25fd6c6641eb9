#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_file.h"
#include "tests/base/crafted_files.h"
#include "tests/formats/random_text.h"
#include "tests/formats/tiny_tokenizer_json.h"

namespace braid {
namespace tokenizer_files_test {

using nlohmann::json;

TEST(ReadTokenizerFileTest, AnEmptyObjectStaysValidJson) {
  const CraftedFiles files;
  std::ofstream(files.directory() / "tokenizer.json") << "{}";
  std::ofstream(files.directory() / "tokenizer_config.json") << R"({"eos_token": "<end>"})";
  const auto read = ReadTokenizerFile(files.directory(), ReadFile);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->bytes, R"({"braid":{"eos_token":"<end>"}})");
  EXPECT_THAT(std::string(Tokenizer::Parse(read->bytes, "x/tokenizer.json").status().message()),
              testing::HasSubstr("model"));
}

TEST(ReadTokenizerFileTest, NamesWhatADirectoryLacks) {
  const CraftedFiles files;
  absl::Status status = ReadTokenizerFile(files.directory(), ReadFile).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("none of tokenizer.model, tokenizer.json and vocab.json"));
  std::ofstream(files.directory() / "vocab.json") << "{}";
  status = ReadTokenizerFile(files.directory(), ReadFile).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("merges.txt"),
                             testing::Not(testing::HasSubstr("none of"))));
}

TEST(ReadTokenizerFileTest, SkipsAByteOrderMark) {
  const CraftedFiles files;
  const std::string text = TinyTokenizerJson({});
  const auto path = files.Write("tokenizer.json", "\xEF\xBB\xBF" + text);
  const auto read = ReadTokenizerFile(path, ReadFile);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->bytes, text);
}

TEST(ReadTokenizerFileTest, MakesOneFileOfSeveral) {
  const CraftedFiles files;
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(files.directory() / name) << text;
  };
  json tiny = TinyTokenizer({});
  tiny["added_tokens"][0]["content"] = "<end>";
  write("tokenizer.json", tiny.dump());
  EXPECT_FALSE(Tokenizer::Load(files.directory() / "tokenizer.json").ok());
  write("tokenizer_config.json", R"({"eos_token": {"content": "<end>"}, "bos_token": null})");
  const auto read = ReadTokenizerFile(files.directory(), ReadFile);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto tokenizer = Tokenizer::Parse(read->bytes, "stored");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Piece((*tokenizer)->eos_id()), "<end>");
  EXPECT_EQ(json::parse(ForOtherPrograms(read->bytes)), tiny);

  const json other = TinyTokenizer({});
  json vocab = other["model"]["vocab"];
  vocab["<|endoftext|>"] = vocab.size();
  std::string merges = "#version: 0.2\n";
  for (const json& merge : other["model"]["merges"]) {
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  }
  write("vocab.json", vocab.dump());
  write("merges.txt", merges);
  const std::filesystem::path vocab_file = files.directory() / "vocab.json";
  // tokenizer_config.json names an end that the vocabulary does not have.
  EXPECT_FALSE(Tokenizer::Parse(ReadTokenizerFile(vocab_file, ReadFile)->bytes, "x").ok());
  write("added_tokens.json", json{{"<end>", vocab.size()}}.dump());
  const auto with_end = Tokenizer::Parse(ReadTokenizerFile(vocab_file, ReadFile)->bytes, "x");
  ASSERT_TRUE(with_end.ok()) << with_end.status();
  EXPECT_EQ((*with_end)->Piece((*with_end)->eos_id()), "<end>");
  // Only tokens that are named for a purpose, or said to be special, are not looked for in text.
  const int32_t end = static_cast<int32_t>(vocab.size()), tool = end + 1, plain = end + 2;
  write("added_tokens.json", json{{"<end>", end}, {"<tool>", tool}, {"<plain>", plain}}.dump());
  json config = {{"eos_token", "<end>"}};
  config["added_tokens_decoder"][std::to_string(tool)] = {{"content", "<tool>"}, {"special", true}};
  write("tokenizer_config.json", config.dump());
  const auto with_added = Tokenizer::Parse(ReadTokenizerFile(vocab_file, ReadFile)->bytes, "x");
  ASSERT_TRUE(with_added.ok()) << with_added.status();
  const std::vector<int32_t> ids = (*with_added)->Encode("<end><tool><plain>");
  EXPECT_THAT(ids, testing::Contains(plain));
  EXPECT_THAT(ids, testing::Not(testing::AnyOf(testing::Contains(end), testing::Contains(tool))));
  EXPECT_EQ((*with_added)->Decode({&plain, 1}), "<plain>");
  write("tokenizer_config.json", R"({"add_prefix_space": true})");
  EXPECT_EQ(ReadTokenizerFile(vocab_file, ReadFile).status().code(),
            absl::StatusCode::kUnimplemented);
  write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  EXPECT_EQ(ReadTokenizerFile(vocab_file, ReadFile).status().code(),
            absl::StatusCode::kUnimplemented);
  write("added_tokens.json", "{}");
  write("tokenizer_config.json", R"({"tokenizer_class": "GPT2TokenizerFast"})");
  const auto gpt2 = ReadTokenizerFile(files.directory() / "vocab.json", ReadFile);
  ASSERT_TRUE(gpt2.ok()) << gpt2.status();
  EXPECT_EQ((*Tokenizer::Parse(gpt2->bytes, "stored"))->Encode("the cat 12"),
            (*Tokenizer::Parse(other.dump(), "tokenizer.json"))->Encode("the cat 12"));

  write("merges.txt", absl::StrReplaceAll(merges, {{"\n", "\r\n"}}));
  EXPECT_EQ(ReadTokenizerFile(files.directory() / "vocab.json", ReadFile)->bytes, gpt2->bytes);
  write("merges.txt", merges + "t \xFF\n");
  const absl::Status status =
      ReadTokenizerFile(files.directory() / "vocab.json", ReadFile).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("merges.txt"), std::string::npos) << status;
}

// Meta distributes that of Llama 3 as tokenizer.model.
TEST(ReadTokenizerFileTest, NamesFilesThatAreNoSentencePieceModel) {
  const auto message = [](const std::string& bytes) {
    const absl::Status status = Tokenizer::Parse(bytes, "x/tokenizer.model").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bytes;
    return std::string(status.message());
  };
  EXPECT_THAT(message("IQ== 0\nIg== 1\n"),
              testing::AllOf(testing::HasSubstr("tiktoken"), testing::HasSubstr("tokenizer.json")));
  EXPECT_THAT(message("IQ== 0\r\n"), testing::HasSubstr("tiktoken"));
  EXPECT_THAT(message("[PAD]\n[UNK]\nthe\n"), testing::HasSubstr("got a text file"));
  EXPECT_THAT(message(std::string("\x08\x01", 2)),
              testing::HasSubstr("not the start of a known field"));
}

// Its texts would end with another token than those of the model beside it.
TEST(ReadTokenizerFileTest, RefusesAnotherEndThanThatOfASentencePieceModel) {
  const CraftedFiles files;
  const std::vector<std::string> sample = {RandomLines(1, 400)};
  ASSERT_TRUE(
      TrainTokenizer(sample, {.vocab_size = 600}, files.directory() / "tokenizer.model").ok());
  for (const char* end : {"</s>", "<s>", "<|endoftext|>"}) {
    std::ofstream(files.directory() / "tokenizer_config.json") << json{{"eos_token", end}};
    const auto file = ReadTokenizerFile(files.directory(), ReadFile);
    ASSERT_TRUE(file.ok()) << file.status();
    const absl::Status status = Tokenizer::Parse(*file).status();
    if (end == std::string("</s>")) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
      EXPECT_NE(status.message().find("eos_token: got"), std::string::npos) << status;
    }
  }
}

// Tunes of LLaMA 2 and Mistral store their chat tokens so.
TEST(ReadTokenizerFileTest, AddsTheTokensBesideASentencePieceModelToIt) {
  const CraftedFiles files;
  const auto write = [&](const char* name, const json& content) {
    std::ofstream(files.directory() / name) << content;
  };
  const auto message = [&] {
    const absl::Status status = ReadTokenizerFile(files.directory(), ReadFile).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  const std::filesystem::path model = files.directory() / "tokenizer.model";
  const std::vector<std::string> sample = {RandomLines(1, 400)};
  ASSERT_TRUE(TrainTokenizer(sample, {.vocab_size = 600}, model).ok());
  const auto plain = Tokenizer::Load(model);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const int32_t end = (*plain)->vocab_size(), start = end + 1, tool = end + 2;
  json config;
  config["added_tokens_decoder"]["2"] = {{"content", "</s>"}, {"special", true}};
  write("tokenizer_config.json", config);
  EXPECT_EQ(ReadTokenizerFile(files.directory(), ReadFile)->bytes, *ReadFile(model));

  write("added_tokens.json", json{{"<start>", start}, {"<a tool>", tool}});
  EXPECT_THAT(message(), testing::AllOf(testing::HasSubstr("\"<start>\": got id 601"),
                                        testing::HasSubstr("expected 600, the next")));
  config["added_tokens_decoder"][std::to_string(end)] = {{"content", "<end>"}, {"special", true}};
  config["additional_special_tokens"] = {"<start>"};
  write("tokenizer_config.json", config);
  const auto read = ReadTokenizerFile(files.directory(), ReadFile);
  ASSERT_TRUE(read.ok()) << read.status();
  const auto tokenizer = Tokenizer::Parse(*read);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocab_size(), tool + 1);
  EXPECT_EQ((*tokenizer)->FindPiece("<end>"), end);
  EXPECT_EQ((*tokenizer)->FindPiece("<start>"), start);
  // Only tokens that are not special are found in text.
  const std::string text = "the <end><start> is <a tool> here";
  const std::vector<int32_t> ids = (*tokenizer)->Encode(text);
  EXPECT_THAT(ids, testing::Contains(tool));
  EXPECT_THAT(ids, testing::Not(testing::AnyOf(testing::Contains(end), testing::Contains(start))));
  EXPECT_EQ((*tokenizer)->Decode(ids), text);
  EXPECT_EQ((*tokenizer)->Decode(std::vector<int32_t>{start, end}), "");
  EXPECT_EQ((*tokenizer)->Encode(sample[0]), (*plain)->Encode(sample[0]));

  write("added_tokens.json", json{{"<s>", end}});
  config["added_tokens_decoder"].erase(std::to_string(end));
  write("tokenizer_config.json", config);
  EXPECT_THAT(message(), testing::HasSubstr("expected 1, that of the equal piece"));
  write("added_tokens.json", json{{"<pad>", -1}});
  EXPECT_THAT(message(), testing::HasSubstr("added_tokens.json: \"<pad>\": got -1"));
  write("added_tokens.json", json::object());
  config["added_tokens_decoder"]["600"] = {{"content", "<x>"}, {"lstrip", true}};
  write("tokenizer_config.json", config);
  EXPECT_EQ(ReadTokenizerFile(files.directory(), ReadFile).status().code(),
            absl::StatusCode::kUnimplemented);
}

// A line that is cut does not have two parts, or they make a word that the vocabulary does not
// have.
TEST(ReadTokenizerFileTest, CutMergesAreErrorsExceptAfterWholeLines) {
  const CraftedFiles files;
  const json tiny = TinyTokenizer({});
  json vocab = tiny["model"]["vocab"];
  vocab["<|endoftext|>"] = vocab.size();
  const std::string header = "#version: 0.2\n", merges = header + "q u\nqu i\n";
  vocab["qu"] = vocab.size();
  vocab["qui"] = vocab.size();
  std::ofstream(files.directory() / "vocab.json") << vocab.dump();
  for (size_t size = header.size(); size <= merges.size(); ++size) {
    std::ofstream(files.directory() / "merges.txt") << merges.substr(0, size);
    const auto read = ReadTokenizerFile(files.directory() / "vocab.json", ReadFile);
    const absl::Status status =
        read.ok() ? Tokenizer::Parse(read->bytes, "stored").status() : read.status();
    const bool whole = merges[size - 1] == '\n' || merges[size] == '\n';
    EXPECT_EQ(status.ok(), whole) << size << " " << status;
  }
}

}  // namespace tokenizer_files_test
}  // namespace braid
