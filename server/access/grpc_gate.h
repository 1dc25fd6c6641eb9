// The one way into the services from outside this process. Every call on a port, whatever its
// method, comes here first: its caller is identified, its method looked up in the policy, its
// request checked; what passes is forwarded to the services over an in-process channel, with the
// caller's name, and what does not is refused before any service has seen it.
//
// It knows methods by name and messages by descriptor, so it does not depend on how a service
// is written, and a new method or field is covered from its first day.
#ifndef BRAID_SERVER_ACCESS_GRPC_GATE_H_
#define BRAID_SERVER_ACCESS_GRPC_GATE_H_

#include <google/protobuf/message.h>
#include <grpcpp/channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "server/access/authenticator.h"
#include "server/access/call_capacity.h"
#include "server/access/call_record.h"
#include "server/access/grpc_gate_call.h"

namespace braid {

struct GateOptions {
  std::shared_ptr<Authenticator> authenticator;
  // What is wrong with a request message; the client gets that status. A long check asks
  // `cancelled` now and then, and ends.
  std::function<absl::Status(const google::protobuf::Message&,
                             const std::function<bool()>& cancelled)>
      check;
  // Told of every call, also of those refused.
  std::vector<std::shared_ptr<CallObserver>> observers;
  // Calls at a time; more are RESOURCE_EXHAUSTED.
  CallLimits limits = {};
  // What a caller that is not let in waits for its answer.
  std::chrono::milliseconds refusal_delay{100};
};

// Thread-safe. Must outlive the server that it is registered with.
class Gate final : public grpc::CallbackGenericService {
 public:
  // `services`: to the server behind the gate, which has no port of its own.
  Gate(GateOptions options, std::shared_ptr<grpc::Channel> services);
  ~Gate() override;

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  // From now on only health is answered, everything else is UNAVAILABLE; watches end with
  // UNAVAILABLE, and their clients go on elsewhere. Returns when the other calls have ended, at
  // the latest after `patience`.
  void Drain(std::chrono::milliseconds patience);

 private:
  Admission Admit(const grpc::GenericCallbackServerContext& context) const;
  // The admission as long as the server can take another call, with the place of that call.
  Admission WithinCapacity(Admission admission, const std::string& method);
  absl::Status CheckRequest(const google::protobuf::Message& prototype, grpc::ByteBuffer* request,
                            const std::function<bool()>& cancelled) const;
  GateCall::Hooks HooksFor(const std::string& method);
  void Enter(const std::shared_ptr<GateCall>& call, const std::string& method);
  void Leave(const std::shared_ptr<GateCall>& call, const CallRecord& record);
  // Calls that a drain waits for.
  bool AnyAtWork() const;

  const GateOptions options_;
  const std::shared_ptr<grpc::Channel> services_;
  grpc::GenericStub stub_;
  CallCapacity capacity_;
  std::atomic<bool> draining_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::shared_ptr<GateCall>> calls_;  // guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_GRPC_GATE_H_
