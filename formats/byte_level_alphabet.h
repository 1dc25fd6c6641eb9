// GPT-2's byte alphabet: each byte is written as one printable character, so that any bytes can
// stand in JSON. Printable Latin-1 stands for itself, the other 68 bytes are U+0100 and following.
#ifndef BRAID_FORMATS_BYTE_LEVEL_ALPHABET_H_
#define BRAID_FORMATS_BYTE_LEVEL_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace braid {

// Returns the character of a byte, in UTF-8.
std::string ByteCharacter(uint8_t byte);

// Returns the bytes that `characters` stand for; nullopt if one of them is not of the alphabet.
std::optional<std::string> BytesOfCharacters(std::string_view characters);

}  // namespace braid

#endif  // BRAID_FORMATS_BYTE_LEVEL_ALPHABET_H_
