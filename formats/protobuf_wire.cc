#include "formats/protobuf_wire.h"

namespace braid {
namespace {

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

}  // namespace

std::optional<uint64_t> ReadVarint(std::string_view message, size_t* position) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && *position < message.size(); shift += 7) {
    const auto byte = static_cast<uint8_t>(message[(*position)++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<WireField> ReadWireField(std::string_view message, size_t* position) {
  const std::optional<uint64_t> tag = ReadVarint(message, position);
  if (!tag) return std::nullopt;
  WireField field{.number = *tag >> 3, .value = 0, .bytes = {}};
  const uint64_t type = *tag & 7;
  if (type == kVarint) {
    const std::optional<uint64_t> value = ReadVarint(message, position);
    if (!value) return std::nullopt;
    field.value = *value;
    return field;
  }
  uint64_t size = type == kFixed64 ? 8 : 4;
  field.is_bytes = type == kLengthDelimited;
  if (field.is_bytes) {
    const std::optional<uint64_t> length = ReadVarint(message, position);
    if (!length) return std::nullopt;
    size = *length;
  } else if (type != kFixed64 && type != kFixed32) {
    return std::nullopt;
  }
  if (size > message.size() - *position) return std::nullopt;
  if (field.is_bytes) field.bytes = message.substr(*position, size);
  *position += size;
  return field;
}

}  // namespace braid
