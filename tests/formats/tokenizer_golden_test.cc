#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "formats/tokenizer.h"

namespace braid {
namespace tokenizer_golden_test {

using nlohmann::json;

// Ids of the Python package `tokenizers`, written by tests/peers/tokenizers_golden.py.
TEST(TokenizerGoldenTest, EveryFamilyHasTheIdsOfTheTokenizersLibrary) {
  const json golden = json::parse(*ReadFile(BRAID_TESTS_DIR "/formats/golden/tokenizers.json"));
  const std::vector<std::string> texts = golden["texts"];
  ASSERT_GE(golden["families"].size(), 7u);
  for (const auto& [family, expected] : golden["families"].items()) {
    const auto tokenizer = Tokenizer::Parse(expected["tokenizer"].dump(), family);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<int32_t> ids = expected["ids"][i];
      EXPECT_EQ((*tokenizer)->Encode(texts[i]), ids) << family << ": " << texts[i];
    }
  }
}

}  // namespace tokenizer_golden_test
}  // namespace braid
