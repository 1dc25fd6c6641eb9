// The gate: the only way into the services from outside this process. For every call on the port it
// identifies the caller, looks the method up in the access policy and checks the request. Calls
// that pass are forwarded to the services over an in-process channel, with the caller's name; the
// others are refused before any service sees them.
//
// The gate handles methods by name and messages by descriptor. It therefore does not depend on how
// a service is implemented, and covers new methods and fields without changes.
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
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/access/authenticator.h"
#include "server/access/call_capacity.h"
#include "server/access/call_record.h"
#include "server/access/grpc_gate_call.h"

namespace braid {

struct GateOptions {
  std::shared_ptr<Authenticator> authenticator;
  // Checks a request message; an error is returned to the client. A long check polls `cancelled`
  // and returns early once it is true.
  std::function<absl::Status(const google::protobuf::Message&,
                             const std::function<bool()>& cancelled)>
      check;
  // Notified of every call, including refused ones.
  std::vector<std::shared_ptr<CallObserver>> observers;
  // Limits on calls in progress; further calls are refused with RESOURCE_EXHAUSTED.
  CallLimits limits = {};
  // Delay of the answer to a caller that is refused.
  std::chrono::milliseconds refusal_delay{100};
  // Interval at which the callers of calls in progress are looked up again.
  std::chrono::milliseconds review_interval{1000};
};

// Thread-safe. Must outlive the server that it is registered with.
class Gate final : public grpc::CallbackGenericService {
 public:
  // `services`: channel to the server with the services, which has no port.
  Gate(GateOptions options, std::shared_ptr<grpc::Channel> services);
  ~Gate() override;

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  // Refuses all further calls with UNAVAILABLE, except health checks, and ends watches with
  // UNAVAILABLE, so that their clients reconnect elsewhere. Blocks until the other calls have
  // ended, at most for `patience`.
  void Drain(std::chrono::milliseconds patience);

 private:
  Admission Admit(const grpc::GenericCallbackServerContext& context) const;
  // Returns `admission` with a place for the call, or refused if the server is draining or full.
  Admission WithinCapacity(Admission admission, const std::string& method);
  absl::Status CheckRequest(const google::protobuf::Message& prototype, grpc::ByteBuffer* request,
                            const std::function<bool()>& cancelled) const;
  GateCall::Hooks HooksFor(const std::string& method);
  void Enter(const std::shared_ptr<GateCall>& call, const std::string& method);
  void Leave(const std::shared_ptr<GateCall>& call, const CallRecord& record);
  // Ends calls, such as watches, whose token or certificate has expired or was revoked since they
  // began; runs until the gate is destroyed.
  void ReviewCalls();
  // Returns the calls in progress of callers that are not valid any more.
  std::vector<std::shared_ptr<GateCall>> CallsToEnd();
  // Returns whether there are calls that a drain waits for.
  bool AnyAtWork() const;

  const GateOptions options_;
  const std::shared_ptr<grpc::Channel> services_;
  grpc::GenericStub stub_;
  CallCapacity capacity_;
  std::atomic<bool> draining_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::shared_ptr<GateCall>> calls_;  // guarded by mutex_
  bool stops_ = false;                         // guarded by mutex_
  std::thread reviewer_;
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_GRPC_GATE_H_
