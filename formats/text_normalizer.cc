#include "formats/text_normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/check.h"

namespace braid {
namespace {

const icu::UnicodeSet& NormalizedCharacters() {
  static const icu::UnicodeSet* const characters = [] {
    UErrorCode error = U_ZERO_ERROR;
    auto* const set = new icu::UnicodeSet(u"[:age=9.0:]", error);
    BRAID_CHECK(U_SUCCESS(error)) << u_errorName(error);
    set->freeze();
    return set;
  }();
  return *characters;
}

const icu::Normalizer2& NormalizerOf(NormalForm form) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = nullptr;
  switch (form) {
    case NormalForm::kNfc:
      normalizer = icu::Normalizer2::getNFCInstance(error);
      break;
    case NormalForm::kNfd:
      normalizer = icu::Normalizer2::getNFDInstance(error);
      break;
    case NormalForm::kNfkc:
      normalizer = icu::Normalizer2::getNFKCInstance(error);
      break;
    case NormalForm::kNfkd:
      normalizer = icu::Normalizer2::getNFKDInstance(error);
      break;
  }
  BRAID_CHECK(normalizer != nullptr && U_SUCCESS(error)) << u_errorName(error);
  return *normalizer;
}

// What the quick check of UAX #15 needs of a character: its canonical combining class, at most 240,
// or one of these.
constexpr uint8_t kMayChange = 255;  // Quick_Check=No or Quick_Check=Maybe
constexpr uint8_t kNewer = 254;      // not in Unicode 9

uint8_t QuickCheckOf(const icu::Normalizer2& normalizer, UChar32 c) {
  if (!NormalizedCharacters().contains(c)) return kNewer;
  UErrorCode error = U_ZERO_ERROR;
  const bool stays = normalizer.quickCheck(icu::UnicodeString(c), error) == UNORM_YES;
  BRAID_CHECK(U_SUCCESS(error)) << u_errorName(error);
  return stays ? normalizer.getCombiningClass(c) : kMayChange;
}

using QuickChecks = std::array<uint8_t, 0x10000>;

const QuickChecks& QuickChecksOf(NormalForm form) {
  const auto make = [form] {
    auto* checks = new QuickChecks;
    for (UChar32 c = 0; c < 0x10000; ++c) {
      (*checks)[static_cast<size_t>(c)] = QuickCheckOf(NormalizerOf(form), c);
    }
    return checks;
  };
  static std::array<std::once_flag, 4> once;
  static std::array<const QuickChecks*, 4> all;
  const auto index = static_cast<size_t>(form);
  std::call_once(once[index], [&] { all[index] = make(); });
  return *all[index];
}

struct QuickCheck {
  bool normalized = true;  // false: perhaps not
  bool newer = false;      // there are characters that are not in Unicode 9
};

// Applies the quick check of UAX #15 to the parts of a text between newer characters.
QuickCheck Check(NormalForm form, std::string_view text) {
  const QuickChecks& table = QuickChecksOf(form);
  const icu::Normalizer2& normalizer = NormalizerOf(form);
  QuickCheck result;
  uint8_t last_class = 0;
  const auto byte = [&](size_t i) { return uint32_t{static_cast<uint8_t>(text[i])}; };
  for (size_t i = 0; i < text.size();) {
    uint64_t eight;
    if (i + 8 <= text.size() &&
        (std::memcpy(&eight, text.data() + i, 8), (eight & 0x8080808080808080) == 0)) {
      last_class = 0;
      i += 8;
      continue;
    }
    const uint32_t lead = byte(i);
    uint8_t check = 0;
    if (lead < 0x80) {
      ++i;
    } else if (lead < 0xE0) {
      check = table[(lead & 0x1F) << 6 | (byte(i + 1) & 0x3F)];
      i += 2;
    } else if (lead < 0xF0) {
      check = table[(lead & 0x0F) << 12 | (byte(i + 1) & 0x3F) << 6 | (byte(i + 2) & 0x3F)];
      i += 3;
    } else {
      const uint32_t c = (lead & 0x07) << 18 | (byte(i + 1) & 0x3F) << 12 |
                         (byte(i + 2) & 0x3F) << 6 | (byte(i + 3) & 0x3F);
      check = QuickCheckOf(normalizer, static_cast<UChar32>(c));
      i += 4;
    }
    if (check == kNewer) {
      result.newer = true;
      check = 0;
    }
    if (check == kMayChange || (check != 0 && check < last_class)) result.normalized = false;
    last_class = check;
  }
  return result;
}

}  // namespace

std::string_view Normalized(std::span<const NormalForm> forms, std::string_view text,
                            std::string* scratch) {
  for (const NormalForm form : forms) {
    const QuickCheck check = Check(form, text);
    if (check.normalized) continue;
    const icu::Normalizer2& latest = NormalizerOf(form);
    const icu::FilteredNormalizer2 filtered(latest, NormalizedCharacters());
    const icu::Normalizer2& normalizer = check.newer ? filtered : latest;
    UErrorCode error = U_ZERO_ERROR;
    std::string next;
    icu::StringByteSink<std::string> sink(&next);
    normalizer.normalizeUTF8(0, {text.data(), static_cast<int32_t>(text.size())}, sink, nullptr,
                             error);
    BRAID_CHECK(U_SUCCESS(error)) << u_errorName(error);
    *scratch = std::move(next);
    text = *scratch;
  }
  return text;
}

}  // namespace braid
