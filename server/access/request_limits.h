// Bounds of every field of every request, whatever its message: a field that is added later is
// covered by the defaults.
//
//   string, bytes      at most 4096 bytes; strings without control characters
//   repeated           at most 1024 elements
//   float, double      finite
//   enum               a known value
//
// Exceptions, such as texts to embed, stand in one table.
#ifndef BRAID_SERVER_ACCESS_REQUEST_LIMITS_H_
#define BRAID_SERVER_ACCESS_REQUEST_LIMITS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace braid {

struct FieldLimit {
  // Full name: "braid.v1.EmbedRequest.texts".
  std::string_view field;
  int64_t max_bytes = 4096;
  int64_t max_elements = 1024;
  // Text of people: line breaks and other control characters are part of it.
  bool is_text = false;
};

// The limit of a field: its exception, or the default.
FieldLimit LimitOf(const google::protobuf::FieldDescriptor& field);

std::span<const FieldLimit> FieldLimitExceptions();

// INVALID_ARGUMENT names the first field that is out of bounds by its path:
//   "spec.paths[3]: got 5000 bytes, expected at most 4096"
absl::Status CheckLimits(const google::protobuf::Message& request);

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_REQUEST_LIMITS_H_
