// Configuration as text: .textproto files and "path.to.field=value" overrides
// of any message under proto/braid/v1. Unknown keys are errors that name the
// nearest known key.
//
//   v1::RunSpec spec;
//   RETURN_IF_ERROR(ParseConfig(text, "run.textproto", &spec));
//   RETURN_IF_ERROR(SetField(&spec, "model.routing.num_experts=8"));
#ifndef BRAID_PROTO_CONFIG_TEXT_H_
#define BRAID_PROTO_CONFIG_TEXT_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace braid {

// Merges text in protobuf text format into `message`. InvalidArgument names
// `source`, line, column, and for an unknown field the nearest known one, or
// the field that is set twice; `message` is then unchanged.
absl::Status ParseConfig(std::string_view text, std::string_view source,
                         google::protobuf::Message* message);

// Sets one scalar or enum field; a repeated field gets a value appended. A group of settings takes
// text format in braces, "optimizer.decay={steps: 100}", or a list of such groups in brackets.
absl::Status SetField(google::protobuf::Message* message, std::string_view assignment);

// Does this for each assignment. Values of a list replace those that `message` has.
absl::Status SetFields(google::protobuf::Message* message,
                       std::span<const std::string> assignments);

}  // namespace braid

#endif  // BRAID_PROTO_CONFIG_TEXT_H_
