#include "client/repeatable_request_id.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"

namespace braid {

std::string RepeatableRequestId(const std::string& name, const google::protobuf::Message& spec) {
  // Equal requests have equal bytes, because none of them has a map, whose order varies.
  const std::string bytes = spec.SerializeAsString();
  return absl::StrFormat("%s-%016x", name, XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace braid
