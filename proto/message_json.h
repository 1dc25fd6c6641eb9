// Messages as JSON.
#ifndef BRAID_PROTO_MESSAGE_JSON_H_
#define BRAID_PROTO_MESSAGE_JSON_H_

#include <optional>
#include <string>

#include "google/protobuf/message.h"
#include "google/protobuf/util/json_util.h"

namespace braid {

enum class JsonLayout { kOneLine, kIndented };

// Returns the fields of `message` that are set, under their names in the .proto file; nullopt if it
// holds what JSON cannot express.
inline std::optional<std::string> MessageToJson(const google::protobuf::Message& message,
                                                JsonLayout layout = JsonLayout::kOneLine) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.add_whitespace = layout == JsonLayout::kIndented;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    return std::nullopt;
  }
  return text;
}

}  // namespace braid

#endif  // BRAID_PROTO_MESSAGE_JSON_H_
