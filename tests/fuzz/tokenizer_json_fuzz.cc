// tokenizer.json, or vocab.json with merges.txt, and a text to tokenize.
#include "base/check.h"
#include "formats/tokenizer.h"
#include "formats/tokenizer_file.h"
#include "formats/word_encoder.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(tokenizer_json)() {
  return {JoinParts({TinyTokenizerJson({}), "the cat's  12\n \xff\u0301<|endoftext|>"}),
          JoinParts({TinyTokenizerJson({.normalizer = {{"type", "NFC"}}, .ignore_merges = true}),
                     "\u212b 3 tab"}),
          JoinParts({R"({"a": 0, "b": 1, "ab": 2})", "ab ba", "#version: 0.2\na b\n"})};
}

}  // namespace braid

int FUZZ_INPUT(tokenizer_json)(const uint8_t* data, size_t size) {
  const auto parts = braid::SplitParts(braid::AsText(data, size), 3);
  std::string text = parts[0];
  if (!parts[2].empty()) {
    const auto file = braid::ReadTokenizerFile(
        "vocab.json", [&](const std::filesystem::path& path) -> absl::StatusOr<std::string> {
          return path.filename() == "merges.txt" ? parts[2] : parts[0];
        });
    if (!file.ok()) return 0;
    text = file->bytes;
  }
  const auto tokenizer = braid::Tokenizer::Parse(text, "fuzz");
  if (!tokenizer.ok() || !text.starts_with('{')) return 0;
  const std::vector<int32_t> ids = (*tokenizer)->Encode(parts[1]);
  for (const int32_t id : ids) BRAID_CHECK(id >= 0 && id < (*tokenizer)->vocab_size()) << id;
  std::vector<int32_t> cached;
  braid::WordEncoder(**tokenizer, size_t{1} << 16).Encode(parts[1], &cached);
  BRAID_CHECK(cached == ids);
  (*tokenizer)->Decode(ids);
  return 0;
}
