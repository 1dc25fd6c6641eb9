// Request ids for commands that take up again what they did before.
#ifndef BRAID_CLIENT_REPEATABLE_REQUEST_ID_H_
#define BRAID_CLIENT_REPEATABLE_REQUEST_ID_H_

#include <string>

#include "google/protobuf/message.h"

namespace braid {

// A request id that is the same for the same settings, so that repeating the
// command finds the work it already did.
std::string RepeatableRequestId(const std::string& name, const google::protobuf::Message& spec);

}  // namespace braid

#endif  // BRAID_CLIENT_REPEATABLE_REQUEST_ID_H_
