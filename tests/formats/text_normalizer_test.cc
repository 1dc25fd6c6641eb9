#include "formats/text_normalizer.h"

#include <gtest/gtest.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tests/formats/random_text.h"

namespace braid {
namespace text_normalizer_test {

// The normalizer of ICU, limited to the characters of Unicode 9.
std::string IcuNormalized(const icu::Normalizer2& latest, const std::string& text) {
  UErrorCode error = U_ZERO_ERROR;
  static const icu::UnicodeSet known(u"[:age=9.0:]", error);
  const icu::FilteredNormalizer2 filtered(latest, known);
  const icu::Normalizer2& normalizer = filtered;
  std::string result;
  normalizer.normalize(icu::UnicodeString::fromUTF8(text), error).toUTF8String(result);
  EXPECT_TRUE(U_SUCCESS(error)) << u_errorName(error);
  return result;
}

TEST(NormalizedTest, EqualsIcuWithTheCharactersOfUnicode9) {
  UErrorCode error = U_ZERO_ERROR;
  const std::vector<std::pair<NormalForm, const icu::Normalizer2*>> forms = {
      {NormalForm::kNfc, icu::Normalizer2::getNFCInstance(error)},
      {NormalForm::kNfd, icu::Normalizer2::getNFDInstance(error)},
      {NormalForm::kNfkc, icu::Normalizer2::getNFKCInstance(error)},
      {NormalForm::kNfkd, icu::Normalizer2::getNFKDInstance(error)}};
  std::mt19937_64 random(11);
  for (int i = 0; i < 1000; ++i) {
    std::string text = RandomPieces(random);
    for (const char* mark : {"\u0323", "\u0301", "\u0c3c", "\u0f71", "\u1161"}) {
      const size_t place = CharacterOffset(text, static_cast<int64_t>(random() % 24));
      if (random() % 3 == 0) text.insert(place, mark);
    }
    for (const auto& [form, icu] : forms) {
      std::string scratch;
      ASSERT_EQ(Normalized({&form, 1}, text, &scratch), IcuNormalized(*icu, text)) << text;
    }
  }
}

}  // namespace text_normalizer_test
}  // namespace braid
