// Finds the paths in a message.
#ifndef BRAID_PROTO_ABSOLUTE_PATHS_H_
#define BRAID_PROTO_ABSOLUTE_PATHS_H_

#include <google/protobuf/message.h>

#include <set>
#include <string>

namespace braid {

// Returns the values of all string fields of a message, and of the messages within it, that begin
// with a slash.
std::set<std::string> AbsolutePathsIn(const google::protobuf::Message& message);

}  // namespace braid

#endif  // BRAID_PROTO_ABSOLUTE_PATHS_H_
