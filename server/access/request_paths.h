// Classifies the string fields of requests, and checks those that are paths of the server against
// the allowed roots before a service sees the request.
#ifndef BRAID_SERVER_ACCESS_REQUEST_PATHS_H_
#define BRAID_SERVER_ACCESS_REQUEST_PATHS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <functional>

#include "absl/status/status.h"
#include "base/path_roots.h"

namespace braid {

// How the server uses a string field of a request.
enum class FieldUse {
  kPath,           // a file or directory of the server
  kModel,          // a run id or a path
  kBranchPoint,    // a run id or a path, "@" and a step
  kText,           // anything else
  kNotClassified,  // not in the table; treated as kPath
};
FieldUse UseOf(const google::protobuf::FieldDescriptor& field);

// Checks all paths of `request`. Returns the error of PathRoots::Check, PERMISSION_DENIED or
// INVALID_ARGUMENT, prefixed with the name of the field. Returns CANCELLED once `cancelled` is
// true, since a request may have many thousand paths.
absl::Status CheckPaths(
    const google::protobuf::Message& request, const PathRoots& roots,
    const std::function<bool()>& cancelled = [] { return false; });

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_REQUEST_PATHS_H_
