// The default values of settings, which stand in the comments of the .proto files and nowhere else.
#ifndef BRAID_PROTO_STATED_DEFAULTS_H_
#define BRAID_PROTO_STATED_DEFAULTS_H_

#include "google/protobuf/message.h"

namespace braid {

// Sets each field of `message` that is not set to the literal that its comment states after
// "Default": a number such as 2e-4 or 16 MiB, the name of an enum value, or a text in double
// quotes. An optional number is set when it is present, an enum when it is not 0, a text when it is
// not empty. Leaves alone other numbers, lists, nested messages, and fields whose default depends
// on other settings ("Default: all cores"). Requires a message that FindFieldHelp documents.
// Thread-safe.
void FillStatedDefaults(google::protobuf::Message* message);

}  // namespace braid

#endif  // BRAID_PROTO_STATED_DEFAULTS_H_
