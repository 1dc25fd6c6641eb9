// Who may call what: every method that braidd can serve, with the least role that may call it.
// A method that is not in the table is refused to everybody.
#ifndef BRAID_SERVER_ACCESS_ACCESS_POLICY_H_
#define BRAID_SERVER_ACCESS_ACCESS_POLICY_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace braid {

// Each role may do what those before it may.
enum class Role {
  kViewer,     // looks
  kSubmitter,  // uses the machines: jobs, runs, evaluations; manages its own
  kOperator,   // manages everybody's, and writes directories of the server
};

// "viewer", "submitter", "operator".
std::string_view RoleName(Role role);
std::optional<Role> ParseRole(std::string_view name);

struct MethodPolicy {
  // As on the wire: "/braid.v1.PipelineService/GetJob".
  std::string_view method;
  Role role = Role::kOperator;
  // Answered to callers without a name too (over TLS they still need a certificate).
  bool open = false;
  // A stream without an end of its own: it is ended when the server drains.
  bool watch = false;
};

// nullptr for a method without policy.
const MethodPolicy* FindPolicy(std::string_view method);

std::span<const MethodPolicy> AllPolicies();

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_ACCESS_POLICY_H_
