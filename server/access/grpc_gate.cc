#include "server/access/grpc_gate.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rpc/request_id.h"

namespace braid {
namespace {

std::optional<std::string> MetadataValue(const grpc::ServerContextBase& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return std::nullopt;
  return std::string(found->second.data(), found->second.size());
}

// Returns the request id of the caller, or a generated one if that could not be logged or sent back
// unchanged.
std::string RequestIdOf(const grpc::ServerContextBase& context) {
  const std::optional<std::string> given = MetadataValue(context, kRequestIdKey);
  return given && IsRequestId(*given) ? *given : NewCallId();
}

CallerEvidence EvidenceOf(const grpc::ServerContextBase& context) {
  CallerEvidence evidence;
  evidence.authorization = MetadataValue(context, "authorization");
  const std::shared_ptr<const grpc::AuthContext> connection = context.auth_context();
  if (connection == nullptr || !connection->IsPeerAuthenticated()) return evidence;
  for (const char* property : {"x509_common_name", "x509_subject_alternative_name"}) {
    for (const grpc::string_ref& name : connection->FindPropertyValues(property)) {
      evidence.certificate_names.emplace_back(name.data(), name.size());
    }
  }
  return evidence;
}

// Returns nullptr for services whose messages are not in the descriptor pool (health).
const google::protobuf::Message* RequestPrototype(const std::string& method) {
  const size_t slash = method.rfind('/');
  if (method.empty() || method.front() != '/' || slash == 0) return nullptr;
  const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
  const auto* const service = pool->FindServiceByName(method.substr(1, slash - 1));
  if (service == nullptr) return nullptr;
  const auto* const descriptor = service->FindMethodByName(method.substr(slash + 1));
  if (descriptor == nullptr) return nullptr;
  return google::protobuf::MessageFactory::generated_factory()->GetPrototype(
      descriptor->input_type());
}

absl::Status DrainedWatch() {
  return absl::UnavailableError("the server is shutting down; watch again to continue");
}

bool IsHealth(const std::string& method) { return method.starts_with("/grpc.health.v1.Health/"); }

bool IsBadIdentity(Refusal refusal) {
  return refusal == Refusal::kNoToken || refusal == Refusal::kBadToken ||
         refusal == Refusal::kExpiredToken;
}

// Limit on the request of a watch, which may be held for hours. It includes unknown fields.
constexpr size_t kMaxWatchBytes = size_t{64} << 10;

absl::Status TooLong(size_t bytes, size_t max_bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat("got a request of ", bytes, " bytes, expected at most ", max_bytes));
}

CallKind KindOf(const Admission& admission) {
  if (!admission.status.ok()) return CallKind::kRefused;
  if (!admission.policy->open) {
    return admission.policy->threadless ? CallKind::kNamed : CallKind::kBlocking;
  }
  return admission.policy->watch ? CallKind::kOpenWatch : CallKind::kOpen;
}

}  // namespace

Gate::Gate(GateOptions options, std::shared_ptr<grpc::Channel> services)
    : options_(std::move(options)),
      services_(std::move(services)),
      stub_(services_),
      capacity_(options_.limits),
      reviewer_([this] { ReviewCalls(); }) {}

Gate::~Gate() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  reviewer_.join();
  // The server has ended every call, but the last may still be in Leave().
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return calls_.empty(); });
}

Admission Gate::Admit(const grpc::GenericCallbackServerContext& context) const {
  const std::string& method = context.method();
  const MethodPolicy* const policy = FindPolicy(method);
  // Open methods do not require an identified caller.
  if (policy != nullptr && policy->open) return {.policy = policy};
  Identity identity = options_.authenticator->Identify(EvidenceOf(context), std::time(nullptr));
  Admission admission{.caller = std::move(identity.caller)};
  if (!identity.status.ok()) {
    admission.status = std::move(identity.status);
    admission.refusal = identity.refusal;
  } else if (policy == nullptr) {
    admission.status = absl::PermissionDeniedError(absl::StrCat(
        "method: got ", absl::CHexEscape(method.substr(0, 100)),
        ", which this server does not have; use braid and braidd of the same version"));
    admission.refusal = Refusal::kNoPolicy;
  } else if (admission.caller.role < policy->role) {
    admission.status = absl::PermissionDeniedError(
        absl::StrCat(admission.caller.name, " is a ", std::string(RoleName(admission.caller.role)),
                     "; this method requires the role of ", std::string(RoleName(policy->role))));
    admission.refusal = Refusal::kRole;
  } else {
    admission.policy = policy;
  }
  return admission;
}

Admission Gate::WithinCapacity(Admission admission, const std::string& method) {
  // Load balancers still get an answer to health checks, which is NOT_SERVING by now.
  if (admission.status.ok() && draining_ && !IsHealth(method)) {
    admission.status = absl::UnavailableError("the server is shutting down; try again");
    return admission;
  }
  const CallKind kind = KindOf(admission);
  // Without a place, a caller that is refused anyway keeps its own error, which it gets at once
  // (CreateReactor).
  const absl::Status entered = capacity_.Enter(kind, admission.caller.name);
  if (entered.ok()) {
    admission.place = kind;
  } else if (admission.status.ok()) {
    admission.status = entered;
  }
  return admission;
}

absl::Status Gate::CheckRequest(const google::protobuf::Message& prototype,
                                grpc::ByteBuffer* request,
                                const std::function<bool()>& cancelled) const {
  // Only for the check: reading leaves the buffer as it is, and the service gets the bytes that the
  // client has sent, with unknown fields.
  const std::unique_ptr<google::protobuf::Message> message(prototype.New());
  grpc::ProtoBufferReader reader(request);
  if (!message->ParseFromZeroCopyStream(&reader)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request is not a valid ",
                     std::string(prototype.GetDescriptor()->full_name()), " with UTF-8 strings"));
  }
  return options_.check(*message, cancelled);
}

GateCall::Hooks Gate::HooksFor(const std::string& method) {
  const google::protobuf::Message* const prototype = RequestPrototype(method);
  const MethodPolicy* const policy = FindPolicy(method);
  const size_t max_bytes =
      policy != nullptr && policy->watch ? kMaxWatchBytes : std::numeric_limits<size_t>::max();
  // The gate outlives its calls; see the destructor.
  return {.check =
              [this, prototype, max_bytes](grpc::ByteBuffer* request,
                                           const std::function<bool()>& cancelled) {
                if (request->Length() > max_bytes) return TooLong(request->Length(), max_bytes);
                return prototype == nullptr ? absl::OkStatus()
                                            : CheckRequest(*prototype, request, cancelled);
              },
          .on_done = [this](const std::shared_ptr<GateCall>& call,
                            const CallRecord& record) { Leave(call, record); }};
}

grpc::ServerGenericBidiReactor* Gate::CreateReactor(grpc::GenericCallbackServerContext* context) {
  const std::string method = context->method();
  auto call = std::make_shared<GateCall>(context, RequestIdOf(*context),
                                         WithinCapacity(Admit(*context), method), HooksFor(method));
  // Before the call can end, perhaps at once on another thread: Leave must find it.
  Enter(call, method);
  if (call->admission().status.ok()) {
    call->Forward(stub_);
    // Drain() does not know a call that has entered since it looked.
    if (draining_ && call->admission().policy->watch) call->End(DrainedWatch());
  } else {
    // The answer is delayed only while there are free places for delayed calls.
    const bool waits = IsBadIdentity(call->admission().refusal) && call->admission().place;
    call->Refuse(waits ? options_.refusal_delay : std::chrono::milliseconds(0));
  }
  // Owned by calls_ until Leave(); gRPC does not delete it.
  return call.get();
}

void Gate::Enter(const std::shared_ptr<GateCall>& call, const std::string& method) {
  if (call->admission().status.ok()) {
    for (const auto& observer : options_.observers) observer->OnStart(method);
  }
  const std::lock_guard lock(mutex_);
  calls_.insert(call);
}

void Gate::Leave(const std::shared_ptr<GateCall>& call, const CallRecord& record) {
  for (const auto& observer : options_.observers) {
    observer->OnEnd(record, call->admission().status.ok());
  }
  const Admission& admission = call->admission();
  if (admission.place) capacity_.Leave(*admission.place, admission.caller.name);
  // Last, and with the notification under the lock: the destructor may return, and changed_ be
  // destroyed, as soon as it finds calls_ empty.
  const std::lock_guard lock(mutex_);
  calls_.erase(call);
  changed_.notify_all();
}

std::vector<std::shared_ptr<GateCall>> Gate::CallsToEnd() {
  std::vector<std::shared_ptr<GateCall>> calls;
  {
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<GateCall>& call : calls_) {
      const Admission& admission = call->admission();
      if (admission.status.ok() && !admission.caller.entry.empty()) calls.push_back(call);
    }
  }
  if (calls.empty()) return calls;
  // Without the lock, which new calls need: this may read the token file.
  const auto valid = options_.authenticator->ValidEntries(std::time(nullptr));
  // While the file cannot be read, nothing shows that a token was revoked.
  if (!valid) return {};
  std::erase_if(calls,
                [&](const auto& call) { return valid->contains(call->admission().caller.entry); });
  return calls;
}

void Gate::ReviewCalls() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, options_.review_interval, [this] { return stops_; })) {
    // Calls are ended without the lock, since each of them takes it in Leave().
    lock.unlock();
    for (const std::shared_ptr<GateCall>& call : CallsToEnd()) {
      call->End(absl::UnauthenticatedError(
          "the token or certificate has expired or was revoked; ask an operator for a new one"));
    }
    lock.lock();
  }
}

bool Gate::AnyAtWork() const {
  return std::ranges::any_of(calls_, [](const std::shared_ptr<GateCall>& call) {
    const MethodPolicy* const policy = call->admission().policy;
    // Watches were ended by the drain, and health checks continue during it.
    return policy != nullptr && !policy->watch && !policy->open;
  });
}

void Gate::Drain(std::chrono::milliseconds patience) {
  draining_ = true;
  std::vector<std::shared_ptr<GateCall>> watches;
  std::unique_lock lock(mutex_);
  for (const std::shared_ptr<GateCall>& call : calls_) {
    const Admission& admission = call->admission();
    if (admission.status.ok() && admission.policy->watch) watches.push_back(call);
  }
  lock.unlock();
  for (const std::shared_ptr<GateCall>& watch : watches) {
    watch->End(DrainedWatch());
  }
  // Frees the watches now instead of after the wait.
  watches.clear();
  lock.lock();
  changed_.wait_for(lock, patience, [this] { return !AnyAtWork(); });
}

}  // namespace braid
