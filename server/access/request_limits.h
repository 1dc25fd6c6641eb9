// Bounds on every field of every request message. The defaults apply to all fields, also to those
// that are added later:
//
//   string, bytes      at most 4096 bytes; strings without control characters
//   repeated           at most 1024 elements
//   float, double      finite
//   enum               a known value
//
// One table lists the exceptions, such as texts to embed.
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
  // Free text, which may contain line breaks and other control characters.
  bool is_text = false;
};

// Returns the limit of a field: its exception, or the default.
FieldLimit LimitOf(const google::protobuf::FieldDescriptor& field);

std::span<const FieldLimit> FieldLimitExceptions();

// Checks all fields of `request`. INVALID_ARGUMENT names the path of the first that is out of
// bounds:
//   "spec.paths[3]: got 5000 bytes, expected at most 4096"
absl::Status CheckLimits(const google::protobuf::Message& request);

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_REQUEST_LIMITS_H_
