#include "rpc/grpc_caller.h"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string_view>

namespace braid {
namespace {

constexpr char kKey[] = "braid-caller";
constexpr std::string_view kOperator = "operator:";
constexpr std::string_view kOther = "other:";

// 128 random bits in hexadecimal and a colon.
const std::string& ProcessSecret() {
  static const std::string* const secret = [] {
    std::random_device random;
    auto* const digits = new std::string;
    for (int i = 0; i < 4; ++i) {
      char word[9];
      std::snprintf(word, sizeof word, "%08x", static_cast<unsigned>(random()));
      *digits += word;
    }
    *digits += ':';
    return digits;
  }();
  return *secret;
}

struct Passed {
  std::string_view name;
  bool is_operator = false;
};

// nullopt unless this process has passed a caller on.
std::optional<Passed> PassedCaller(const grpc::ServerContextBase& context) {
  const auto [begin, end] = context.client_metadata().equal_range(kKey);
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
  return absl::PermissionDeniedError(what + " belongs to " + owner + ", and you are " +
                                     PrincipalOf(context) + "; ask " + owner + " or an operator");
}

void SetCaller(const std::string& name, bool is_operator, grpc::ClientContext* context) {
  std::string value = ProcessSecret();
  value += is_operator ? kOperator : kOther;
  context->AddMetadata(kKey, value + name);
}

}  // namespace braid
