// A small tokenizer.json: the 256 bytes, a few merges and one special token.
#ifndef BRAID_TESTS_FORMATS_TINY_TOKENIZER_JSON_H_
#define BRAID_TESTS_FORMATS_TINY_TOKENIZER_JSON_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/byte_level_alphabet.h"

namespace braid {

struct TinyTokenizerOptions {
  std::string regex = {};  // empty: GPT-2's
  nlohmann::json normalizer = {};
  bool ignore_merges = false;
  std::vector<std::pair<std::string, std::string>> merges = {
      {"t", "h"},  {"th", "e"}, {"\u0120", "the"},   {"c", "a"},
      {"ca", "t"}, {"a", "t"},  {"\u0120", "\u0120"}};
};

inline nlohmann::json TinyTokenizer(const TinyTokenizerOptions& options) {
  using Json = nlohmann::json;
  Json vocab = Json::object(), merges = Json::array();
  for (int byte = 0; byte < 256; ++byte) vocab[ByteCharacter(static_cast<uint8_t>(byte))] = byte;
  for (const auto& [left, right] : options.merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = vocab.size();
    merges.push_back({left, right});
  }
  const Json end = {{"id", vocab.size()}, {"content", "<|endoftext|>"}, {"special", true}};
  Json pre_tokenizer = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  if (!options.regex.empty()) {
    pre_tokenizer["use_regex"] = false;
    pre_tokenizer = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", options.regex}}}, {"behavior", "Isolated"}},
          pre_tokenizer}}};
  }
  return {{"added_tokens", Json::array({end})},
          {"normalizer", options.normalizer},
          {"pre_tokenizer", pre_tokenizer},
          {"model",
           {{"type", "BPE"},
            {"ignore_merges", options.ignore_merges},
            {"vocab", vocab},
            {"merges", merges}}}};
}

inline std::string TinyTokenizerJson(const TinyTokenizerOptions& options) {
  return TinyTokenizer(options).dump();
}

}  // namespace braid

#endif  // BRAID_TESTS_FORMATS_TINY_TOKENIZER_JSON_H_
