// Idempotency keys of commands that continue their earlier work.
#ifndef BRAID_CLIENT_REPEATABLE_REQUEST_ID_H_
#define BRAID_CLIENT_REPEATABLE_REQUEST_ID_H_

#include <string>

#include "google/protobuf/message.h"

namespace braid {

// Returns a request id that depends only on the name and the settings, so that a repeated command
// gets the jobs and runs that it created before.
std::string RepeatableRequestId(const std::string& name, const google::protobuf::Message& spec);

}  // namespace braid

#endif  // BRAID_CLIENT_REPEATABLE_REQUEST_ID_H_
