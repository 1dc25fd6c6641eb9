// The table of all methods that braidd can serve, with the lowest role that may call each. A method
// that is not in the table is refused for every caller.
#ifndef BRAID_SERVER_ACCESS_ACCESS_POLICY_H_
#define BRAID_SERVER_ACCESS_ACCESS_POLICY_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace braid {

// Each role includes the rights of those before it.
enum class Role {
  kViewer,     // reads
  kSubmitter,  // starts jobs, runs and evaluations, and manages its own
  kOperator,   // manages those of all principals, and writes directories of the server
};

// Returns "viewer", "submitter" or "operator".
std::string_view RoleName(Role role);
std::optional<Role> ParseRole(std::string_view name);

struct MethodPolicy {
  // Name in gRPC requests: "/braid.v1.PipelineService/GetJob".
  std::string_view method;
  Role role = Role::kOperator;
  // Callers without a token may call it, too; over TLS they still need a certificate.
  bool open = false;
  // A stream that does not end by itself; it is ended when the server drains.
  bool watch = false;
  // No thread of the server waits in the call.
  bool threadless = false;
};

// Returns nullptr for a method without a policy.
const MethodPolicy* FindPolicy(std::string_view method);

std::span<const MethodPolicy> AllPolicies();

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_ACCESS_POLICY_H_
