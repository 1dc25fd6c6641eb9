// vocab.txt and a text to tokenize.
#include "base/check.h"
#include "retrieval/wordpiece_tokenizer.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(wordpiece)() {
  const std::string vocabulary = "[UNK]\n[CLS]\n[SEP]\na\n##b\ncafe\n##σ\nς\n中\n.\n";
  return {JoinParts({vocabulary, "Café ab ΑΣ. 中\u0301\u200b \xff[SEP]"}),
          JoinParts({vocabulary, "≠\u1b44\u302e\U0001d165Σ"})};
}

}  // namespace braid

int FUZZ_INPUT(wordpiece)(const uint8_t* data, size_t size) {
  const auto parts = braid::SplitParts(braid::AsText(data, size), 2);
  const auto vocabulary = braid::WordPieceVocabulary::Parse(parts[0], "fuzz");
  if (!vocabulary.ok()) return 0;
  for (const bool lower_case : {true, false}) {
    const braid::WordPieceTokenizer tokenizer(*vocabulary, lower_case);
    const braid::WordPieces whole = tokenizer.Encode(parts[1], 1 << 20);
    BRAID_CHECK(whole.ids.size() >= 2 && !whole.truncated);
    for (const int32_t id : whole.ids) BRAID_CHECK(id >= 0 && id < vocabulary->size()) << id;
    const braid::WordPieces cut = tokenizer.Encode(parts[1], 5);
    const size_t expected = std::min<size_t>(5, whole.ids.size());
    BRAID_CHECK(cut.ids.size() == expected && cut.truncated == (whole.ids.size() > 5));
    for (size_t i = 0; i + 1 < expected; ++i) BRAID_CHECK(cut.ids[i] == whole.ids[i]) << i;
  }
  return 0;
}
