// Checks of the text in requests before they are sent.
#ifndef BRAID_RPC_REQUEST_TEXT_H_
#define BRAID_RPC_REQUEST_TEXT_H_

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace braid {

// Returns InvalidArgument, naming the field, when a text of the request is not UTF-8. protobuf
// would send it, and the server refuse it without a message. Arguments of programs are UTF-8, but
// the working directory, which makes their paths absolute, need not be.
absl::Status CheckUtf8(const google::protobuf::Message& request);

}  // namespace braid

#endif  // BRAID_RPC_REQUEST_TEXT_H_
