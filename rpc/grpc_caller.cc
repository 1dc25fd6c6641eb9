#include "rpc/grpc_caller.h"

#include <optional>
#include <string_view>

#include "base/random_id.h"

namespace braid {
namespace {

constexpr char kKey[] = "braid-caller";
constexpr std::string_view kOperator = "operator:";
constexpr std::string_view kOther = "other:";

// Returns 128 random bits in hexadecimal and a colon, the same during the whole process.
const std::string& ProcessSecret() {
  static const auto* const secret = new std::string(RandomId(32) + ":");
  return *secret;
}

struct Passed {
  std::string_view name;
  bool is_operator = false;
};

// Returns the caller that the gate of this process attached; nullopt if there is none.
std::optional<Passed> PassedCaller(const grpc::ServerContextBase& context) {
  const auto [begin, end] = context.client_metadata().equal_range(kKey);
  // A client may send values with this key, too; those lack the secret and are skipped.
  for (auto entry = begin; entry != end; ++entry) {
    std::string_view value(entry->second.data(), entry->second.size());
    if (!value.starts_with(ProcessSecret())) continue;
    value.remove_prefix(ProcessSecret().size());
    const bool is_operator = value.starts_with(kOperator);
    value.remove_prefix(is_operator ? kOperator.size() : kOther.size());
    return Passed{value, is_operator};
  }
  return std::nullopt;
}

}  // namespace

std::string PrincipalOf(const grpc::ServerContextBase& context) {
  const std::optional<Passed> caller = PassedCaller(context);
  return caller ? std::string(caller->name) : "local";
}

bool MayManage(const grpc::ServerContextBase& context, const std::string& owner) {
  const std::optional<Passed> caller = PassedCaller(context);
  return !caller || caller->is_operator || caller->name == owner;
}

absl::Status CheckMayManage(const grpc::ServerContextBase& context, const std::string& what,
                            const std::string& owner) {
  if (MayManage(context, owner)) return absl::OkStatus();
  if (owner.empty()) {
    return absl::PermissionDeniedError(what + " has no known owner; ask an operator");
  }
  return absl::PermissionDeniedError(what + " belongs to " + owner + ", and you are " +
                                     PrincipalOf(context) + "; ask " + owner + " or an operator");
}

void SetCaller(const std::string& name, bool is_operator, grpc::ClientContext* context) {
  std::string value = ProcessSecret();
  value += is_operator ? kOperator : kOther;
  context->AddMetadata(kKey, value + name);
}

}  // namespace braid
