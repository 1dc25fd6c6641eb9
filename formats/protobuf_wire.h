// Reads the fields of a serialized Protocol Buffers message one by one. For messages of other
// programs of which braid needs a few fields; messages of braid itself are parsed by the library.
#ifndef BRAID_FORMATS_PROTOBUF_WIRE_H_
#define BRAID_FORMATS_PROTOBUF_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace braid {

struct WireField {
  uint64_t number = 0;
  uint64_t value = 0;      // the varint; 0 for the other wire types
  std::string_view bytes;  // the content of a length-delimited field; empty for the others
  bool is_bytes = false;
};

// Reads a base-128 varint at *position and advances it; nullopt if the message is truncated.
std::optional<uint64_t> ReadVarint(std::string_view message, size_t* position);

// Reads the field at *position and advances it; nullopt if the message is truncated there or has a
// wire type other than varint, 64-bit, length-delimited and 32-bit. Requires *position <
// message.size().
std::optional<WireField> ReadWireField(std::string_view message, size_t* position);

}  // namespace braid

#endif  // BRAID_FORMATS_PROTOBUF_WIRE_H_
