// tokenizer.json and a text to tokenize.
#include "base/check.h"
#include "formats/tokenizer.h"
#include "formats/word_encoder.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FuzzSeeds() {
  return {JoinParts({TinyTokenizerJson({}), "the cat's  12\n \xff\u0301<|endoftext|>"}),
          JoinParts({TinyTokenizerJson({.normalizer = {{"type", "NFC"}}, .ignore_merges = true}),
                     "\u212b 3 tab"})};
}

}  // namespace braid

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parts = braid::SplitParts(braid::AsText(data, size), 2);
  const auto tokenizer = braid::Tokenizer::Parse(parts[0], "fuzz");
  if (!tokenizer.ok() || !parts[0].starts_with('{')) return 0;
  const std::vector<int32_t> ids = (*tokenizer)->Encode(parts[1]);
  for (const int32_t id : ids) BRAID_CHECK(id >= 0 && id < (*tokenizer)->vocab_size()) << id;
  std::vector<int32_t> cached;
  braid::WordEncoder(**tokenizer, size_t{1} << 16).Encode(parts[1], &cached);
  BRAID_CHECK(cached == ids);
  (*tokenizer)->Decode(ids);
  return 0;
}
