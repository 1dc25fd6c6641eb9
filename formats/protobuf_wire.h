// Reads the fields of a serialised Protocol Buffers message, one after the other.
// For messages of other programs, of which we look at a few fields; our own are
// read by the library.
#ifndef BRAID_FORMATS_PROTOBUF_WIRE_H_
#define BRAID_FORMATS_PROTOBUF_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace braid {

struct WireField {
  uint64_t number = 0;
  uint64_t value = 0;      // of a varint; 0 for the other wire types
  std::string_view bytes;  // of a length-delimited field; empty for the others
  bool is_bytes = false;
};

// A base-128 varint at *position, which moves behind it; nullopt when cut short.
std::optional<uint64_t> ReadVarint(std::string_view message, size_t* position);

// The field at *position, which moves behind it; nullopt when the message is cut
// short there or has a wire type that is none of varint, 64 bits, bytes and 32 bits.
// Requires *position < message.size().
std::optional<WireField> ReadWireField(std::string_view message, size_t* position);

}  // namespace braid

#endif  // BRAID_FORMATS_PROTOBUF_WIRE_H_
