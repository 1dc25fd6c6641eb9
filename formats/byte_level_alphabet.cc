#include "formats/byte_level_alphabet.h"

#include <array>

namespace braid {
namespace {

constexpr bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Index: byte; value: code point.
constexpr std::array<uint16_t, 256> kCodePoints = [] {
  std::array<uint16_t, 256> points{};
  uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    points[static_cast<size_t>(byte)] =
        StandsForItself(byte) ? static_cast<uint16_t>(byte) : next++;
  }
  return points;
}();

// Index: code point; value: byte, or -1.
constexpr std::array<int16_t, 0x144> kBytes = [] {
  std::array<int16_t, 0x144> bytes{};
  bytes.fill(-1);
  for (int16_t byte = 0; byte < 256; ++byte) bytes[kCodePoints[static_cast<size_t>(byte)]] = byte;
  return bytes;
}();

}  // namespace

std::string ByteCharacter(uint8_t byte) {
  const uint16_t point = kCodePoints[byte];
  if (point < 0x80) return std::string(1, static_cast<char>(point));
  return {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
}

std::optional<std::string> BytesOfCharacters(std::string_view characters) {
  std::string bytes;
  for (size_t i = 0; i < characters.size(); ++i) {
    auto point = static_cast<uint32_t>(static_cast<uint8_t>(characters[i]));
    if (point >= 0x80) {
      if (point < 0xC2 || point > 0xC5 || i + 1 == characters.size()) return std::nullopt;
      point = (point & 0x1F) << 6 | (static_cast<uint8_t>(characters[++i]) & 0x3F);
    }
    if (point >= kBytes.size() || kBytes[point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[point]));
  }
  return bytes;
}

}  // namespace braid
