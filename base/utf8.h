// UTF-8: validation, counting characters, and cutting text between characters.
//
// A character is a code point. Functions that do not validate accept any bytes: they regard every
// byte that is not a continuation byte as the start of a character.
#ifndef BRAID_BASE_UTF8_H_
#define BRAID_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace braid {

// Returns whether `byte` continues a character, 10xxxxxx in binary, rather than starts one.
constexpr bool IsContinuationByte(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Returns the number of bytes, 1 to 4, of a character that starts with `lead`; 1 if no character
// does.
constexpr size_t EncodedLength(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
}

// Returns whether all of `text` is valid UTF-8 (Unicode 15.0, table 3-7): no overlong forms, no
// surrogates, nothing above U+10FFFF. NUL is valid.
bool IsValidUtf8(std::string_view text);

// Returns the length in bytes of the valid character at the start of `text`, which must not be
// empty; 0 if the bytes there are not a valid character.
size_t ValidCharacterLength(std::string_view text);

// Returns `text` with each byte that is not part of a valid character replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

// Returns the number of characters.
int64_t CountCharacters(std::string_view text);

// Returns the columns that the character at the start of `text`, which must not be empty, takes in
// a font of fixed width: two for East Asian characters and emoji, none for combining ones. A byte
// that is not part of a character takes one.
int CharacterColumns(std::string_view text);

// Returns the byte offset at which character `index`, counted from 0, starts; text.size() if there
// are at most `index` characters.
//
//   text.substr(0, CharacterOffset(text, 20))  // the first 20 characters
size_t CharacterOffset(std::string_view text, int64_t index);

// Returns the length in bytes of the longest prefix of at most `max_bytes` bytes that does not end
// within a character.
size_t Utf8PrefixLength(std::string_view text, size_t max_bytes);

}  // namespace braid

#endif  // BRAID_BASE_UTF8_H_
