// Classes of the characters of a text, by which piece_scanner.h cuts it.
#ifndef BRAID_FORMATS_CHARACTER_SCAN_H_
#define BRAID_FORMATS_CHARACTER_SCAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace braid {

enum CharacterClass : uint16_t {
  kLetter = 1,       // \p{L}
  kNumber = 2,       // \p{N}
  kSpace = 4,        // \s, the property White_Space
  kLineEnd = 8,      // \r and \n
  kUpper = 16,       // \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}
  kLower = 32,       // \p{Ll}\p{Lm}\p{Lo}\p{M}
  kMark = 64,        // \p{M}
  kSymbol = 128,     // \p{P}\p{S}
  kIdeograph = 256,  // [\u4e00-\u9fa5\u3040-\u30ff], ideographs and kana of DeepSeek
};

// Returns the classes of a code point, those of the installed ICU library.
uint16_t ClassesOf(uint32_t c);

using ClassTable = std::array<uint16_t, 0x10000>;
const ClassTable& ClassesOfBasicPlane();

struct ScannedCharacter {
  uint16_t classes = 0;
  uint16_t length = 0;  // in bytes; 0 at the end of the text
};

// Walks over the characters of valid UTF-8.
class CharacterScan {
 public:
  explicit CharacterScan(std::string_view text) : text_(text), table_(ClassesOfBasicPlane()) {}

  // Makes the text end, for all functions, before the next number if the character at `i` is none,
  // and so on for each of `classes`. Requires: i is before the end of the whole text.
  void StartPart(size_t i, uint16_t classes) {
    boundary_ = 0;
    part_ = At(i).classes;
    boundary_ = classes;
  }

  ScannedCharacter At(size_t i) const {
    if (i >= text_.size()) return {};
    const auto lead = static_cast<uint8_t>(text_[i]);
    const ScannedCharacter c = lead < 0x80 ? ScannedCharacter{table_[lead], 1} : AtWide(i);
    return InPart(c.classes) ? c : ScannedCharacter{};
  }

  // The character at `i` if it is beyond ASCII; apart so that the common case is inlined.
  [[gnu::noinline]] ScannedCharacter AtWide(size_t i) const {
    const auto byte = [&](size_t k) { return static_cast<uint8_t>(text_[i + k]); };
    const uint32_t lead = byte(0);
    if (lead < 0xE0) return {table_[(lead & 0x1F) << 6 | (byte(1) & 0x3F)], 2};
    if (lead < 0xF0) {
      return {table_[(lead & 0x0F) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3F)], 3};
    }
    return {ClassesOf((lead & 0x07) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 |
                      (byte(3) & 0x3Fu)),
            4};
  }

  // Returns the end of the run of characters from `i` that have one of `classes`.
  size_t Run(size_t i, uint16_t classes, size_t limit = SIZE_MAX) const {
    for (size_t n = 0; n < limit; ++n) {
      const ScannedCharacter c = At(i);
      if ((c.classes & classes) == 0) break;
      i += c.length;
    }
    return i;
  }

  // Returns the end of the run of characters from `i` that have none of `classes`.
  size_t RunWithout(size_t i, uint16_t classes) const {
    while (true) {
      const ScannedCharacter c = At(i);
      if (c.length == 0 || (c.classes & classes) != 0) return i;
      i += c.length;
    }
  }

  size_t AsciiLetters(size_t i) const {
    while (i < text_.size() && (text_[i] | 0x20) >= 'a' && (text_[i] | 0x20) <= 'z') ++i;
    return i;
  }

  bool Is(size_t i, char byte) const {
    return i < text_.size() && text_[i] == byte && InPart(table_[static_cast<uint8_t>(byte)]);
  }

  // Returns the end of the last character in [begin, end) that has one of `classes`; 0 if none has.
  size_t LastEnd(size_t begin, size_t end, uint16_t classes) const {
    size_t last = 0;
    for (size_t i = begin; i < end;) {
      const ScannedCharacter c = At(i);
      i += c.length;
      if ((c.classes & classes) != 0) last = i;
    }
    return last;
  }

  // Returns the end of 's, 't, 're, 've, 'm, 'll or 'd at `i`, or `i`. Without regard to case an
  // s is also U+017F.
  size_t Contraction(size_t i, bool any_case) const {
    if (!Is(i, '\'')) return i;
    const auto letter = [&](size_t k) -> char {
      if (i + k >= text_.size()) return 0;
      const char c = text_[i + k];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter(1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
    if ((first == 'r' || first == 'v') && letter(2) == 'e') return i + 3;
    if (first == 'l' && letter(2) == 'l') return i + 3;
    if (any_case && text_.substr(i + 1, 2) == "\xC5\xBF") return i + 3;
    return i;
  }

 private:
  bool InPart(uint16_t classes) const { return ((classes ^ part_) & boundary_) == 0; }

  std::string_view text_;
  const ClassTable& table_;
  uint16_t part_ = 0, boundary_ = 0;
};

}  // namespace braid

#endif  // BRAID_FORMATS_CHARACTER_SCAN_H_
