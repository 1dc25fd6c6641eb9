// Which fields of requests are paths of the server, and the check of all of them against the
// roots before a service sees the request.
#ifndef BRAID_SERVER_ACCESS_REQUEST_PATHS_H_
#define BRAID_SERVER_ACCESS_REQUEST_PATHS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <functional>

#include "absl/status/status.h"
#include "base/path_roots.h"

namespace braid {

// What a string field of a request is to the server.
enum class FieldUse {
  kPath,           // a file or directory of the server
  kModel,          // a run's id, or a path
  kText,           // anything else
  kNotClassified,  // not in the table; treated as kPath
};
FieldUse UseOf(const google::protobuf::FieldDescriptor& field);

// PERMISSION_DENIED or INVALID_ARGUMENT with the field's name before what PathRoots::Check says;
// CANCELLED once `cancelled` is true: a request may have many thousand paths.
absl::Status CheckPaths(
    const google::protobuf::Message& request, const PathRoots& roots,
    const std::function<bool()>& cancelled = [] { return false; });

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_REQUEST_PATHS_H_
