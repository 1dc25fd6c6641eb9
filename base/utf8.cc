#include "base/utf8.h"

#include <locale.h>
#include <simdjson.h>
#include <wchar.h>

#include <algorithm>

namespace braid {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

bool IsValidUtf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

size_t ValidCharacterLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return 1;
  // 0x80 to 0xBF are continuation bytes, 0xC0 and 0xC1 overlong forms of ASCII; 0xF5 and more would
  // be above U+10FFFF.
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = EncodedLength(text.front());
  if (length > text.size()) return 0;
  if (!std::ranges::all_of(text.substr(1, length - 1), IsContinuationByte)) return 0;
  // The second byte distinguishes overlong forms (E0, F0), surrogates (ED) and code points above
  // U+10FFFF (F4).
  const auto second = static_cast<unsigned char>(text[1]);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return 0;
  if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
  return length;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  if (IsValidUtf8(text)) return std::string(text);
  std::string valid;
  for (size_t i = 0; i < text.size();) {
    const size_t length = ValidCharacterLength(text.substr(i));
    valid += length == 0 ? kReplacement : text.substr(i, length);
    i += length == 0 ? 1 : length;
  }
  return valid;
}

int64_t CountCharacters(std::string_view text) {
  return std::ranges::count_if(text, [](char byte) { return !IsContinuationByte(byte); });
}

int CharacterColumns(std::string_view text) {
  const size_t length = ValidCharacterLength(text);
  if (length < 2) return 1;
  unsigned code = static_cast<unsigned char>(text.front()) & (0xFFU >> (length + 1));
  for (const char byte : text.substr(1, length - 1)) {
    code = code << 6 | (static_cast<unsigned char>(byte) & 0x3FU);
  }
  // The locale of the process may not know the character.
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return 1;
  const locale_t before = uselocale(utf8);
  const int columns = wcwidth(static_cast<wchar_t>(code));
  uselocale(before);
  return columns < 0 ? 1 : columns;
}

size_t CharacterOffset(std::string_view text, int64_t index) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsContinuationByte(text[i]) && index-- == 0) return i;
  }
  return text.size();
}

size_t Utf8PrefixLength(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text.size();
  size_t length = max_bytes;
  while (length > 0 && IsContinuationByte(text[length])) --length;
  return length;
}

}  // namespace braid
