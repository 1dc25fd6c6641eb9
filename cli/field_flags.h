// Command line flags that are aliases of configuration paths. A flag's help text and default come
// from the comment of the field in proto/braid/v1, so that they are written in one place.
//
//   FieldFlags fields("braid.v1.RunSpec");
//   fields.Add(command, "--learning-rate", "optimizer.learning_rate");
//   ...parse...
//   RETURN_IF_ERROR(fields.Apply(&spec));
#ifndef BRAID_CLI_FIELD_FLAGS_H_
#define BRAID_CLI_FIELD_FLAGS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace braid {

class FieldFlags {
 public:
  // `message` is the full name of the message whose fields are set. Help texts show `prefix` before
  // each path: the path from the configuration's root to that message; nullopt for a message that
  // is in no configuration, whose paths are not shown.
  explicit FieldFlags(std::string message, std::optional<std::string> prefix = "")
      : message_(std::move(message)), prefix_(std::move(prefix)) {}
  FieldFlags(const FieldFlags&) = delete;
  FieldFlags& operator=(const FieldFlags&) = delete;

  // Adds `flag` (or a positional argument, without dashes) to `command` as an alias of `path`.
  // Single integers must be positive, or at least 0 where that is the stated default. A boolean
  // field becomes a flag without a value, and a repeated field takes several values. Values of
  // enums are shown as "key-mean" and may be written in any case, also as KEY_MEAN. The object must
  // outlive parsing. CHECKs that the field exists.
  CLI::Option* Add(CLI::App* command, const std::string& flag, const std::string& path);

  // Sets the fields whose flags were given; other fields of `message` keep their values.
  // InvalidArgument as SetFields (proto/config_text.h).
  absl::Status Apply(google::protobuf::Message* message) const;

  // Returns "PATH=VALUE" for each flag given, in the order of parsing, as --set takes it.
  std::vector<std::string> Assignments() const;

 private:
  const std::string message_;
  const std::optional<std::string> prefix_;
  // Path and value of each flag given, in the order of parsing.
  std::vector<std::pair<std::string, std::string>> values_;
};

// Returns the help text of a field: "Peak learning rate (default: 2e-4) [optimizer.learning_rate]".
// CHECKs that the field exists and that its comment has a first sentence.
std::string FieldHelpText(const std::string& message, const std::string& prefix,
                          const std::string& path);

}  // namespace braid

#endif  // BRAID_CLI_FIELD_FLAGS_H_
