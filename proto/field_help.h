// Documentation of configuration fields: the comments in proto/braid/v1, which generated message
// classes do not keep. The build embeds the descriptors of the configuration messages together with
// their comments, so that the .proto files are the only place where a setting is described.
//
//   ASSIGN_OR_RETURN(const FieldHelp help,
//                    FindFieldHelp("braid.v1.RunSpec", "optimizer.learning_rate"));
//   // help.summary == "Peak learning rate", help.default_value == "2e-4"
#ifndef BRAID_PROTO_FIELD_HELP_H_
#define BRAID_PROTO_FIELD_HELP_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"

namespace braid {

struct FieldHelp {
  // The first sentence of the field's comment, without its period.
  std::string summary;
  // The value that the comment states after "Default", up to the next period, colon or semicolon;
  // empty when it states none.
  std::string default_value;
  // The field; its comments and its enum type are those of the .proto file. Never null, and valid
  // until the program exits.
  const google::protobuf::FieldDescriptor* field = nullptr;
};

// Returns the documentation of the field that `path`, such as "optimizer.learning_rate", names in
// the message with the full name `message`. NotFound when there is no such message or field, or
// when the message is not part of a configuration. Thread-safe.
absl::StatusOr<FieldHelp> FindFieldHelp(const std::string& message, std::string_view path);

// Splits a comment into summary and default value. Exposed for tests.
FieldHelp ParseFieldComment(std::string_view comment);

}  // namespace braid

#endif  // BRAID_PROTO_FIELD_HELP_H_
