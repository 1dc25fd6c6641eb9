#include "proto/grpc_caller.h"

#include <grpcpp/security/auth_context.h>

#include <memory>
#include <vector>

namespace braid {

std::string PrincipalOf(const grpc::ServerContextBase& context) {
  const std::shared_ptr<const grpc::AuthContext> caller = context.auth_context();
  if (caller == nullptr) return "local";
  const std::vector<grpc::string_ref> names = caller->FindPropertyValues(kPrincipalProperty);
  return names.empty() ? "local" : std::string(names.front().data(), names.front().size());
}

}  // namespace braid
