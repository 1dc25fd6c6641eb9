// A call at the gate: refused, or forwarded message by message in both directions until either side
// ends it.
//
// At most one message of each direction is held at a time, and the next is read only after it has
// been forwarded. A side that does not read therefore slows the other side down, and memory use is
// bounded.
#ifndef BRAID_SERVER_ACCESS_GRPC_GATE_CALL_H_
#define BRAID_SERVER_ACCESS_GRPC_GATE_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/access/access_policy.h"
#include "server/access/authenticator.h"
#include "server/access/call_capacity.h"
#include "server/access/call_record.h"

namespace braid {

// The decision about a call.
struct Admission {
  // OK admits the call.
  absl::Status status = {};
  Refusal refusal = Refusal::kNone;
  // Empty for open methods.
  Caller caller = {};
  // The policy of the method; set for a call that is admitted.
  const MethodPolicy* policy = nullptr;
  // The place in CallCapacity that the call holds until it ends.
  std::optional<CallKind> place = {};
};

// Requires that exactly one of Refuse() and Forward() is called, and that the owner keeps the
// object alive until `on_done` is called, which is its last action.
class GateCall final : public grpc::ServerGenericBidiReactor,
                       public std::enable_shared_from_this<GateCall> {
 public:
  struct Hooks {
    // Checks a request; an error ends the call with that status.
    std::function<absl::Status(grpc::ByteBuffer* request, const std::function<bool()>& cancelled)>
        check;
    std::function<void(const std::shared_ptr<GateCall>&, const CallRecord&)> on_done;
  };

  GateCall(grpc::GenericCallbackServerContext* context, std::string request_id, Admission admission,
           Hooks hooks);

  // Ends the call with the status of the admission after `delay`.
  void Refuse(std::chrono::milliseconds delay);
  // Starts to forward the call to the services.
  void Forward(grpc::GenericStub& services);
  // Ends a forwarded call with `status`; may be called from any thread.
  void End(const absl::Status& status);

  const Admission& admission() const { return admission_; }

 private:
  // Callbacks of the call from the gate to the service.
  class Upstream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Upstream(GateCall* call) : call_(call) {}
    void OnReadInitialMetadataDone(bool ok) override { call_->OnHeaders(ok); }
    void OnReadDone(bool ok) override { call_->OnResponse(ok); }
    void OnWriteDone(bool ok) override { call_->OnRequestPassed(ok); }
    void OnDone(const grpc::Status& status) override { call_->OnServiceDone(status); }

   private:
    GateCall* const call_;
  };

  // Callbacks of the client-facing stream.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Callbacks of the service-facing stream, called by Upstream.
  void OnHeaders(bool ok);
  void OnResponse(bool ok);
  void OnRequestPassed(bool ok);
  void OnServiceDone(const grpc::Status& status);

  void EndRequests(bool half_close);
  void FinishWith(const grpc::Status& status);

  grpc::GenericCallbackServerContext* const context_;
  const Admission admission_;
  const Hooks hooks_;
  const std::chrono::steady_clock::time_point started_;
  CallRecord record_;
  grpc::Alarm delay_;
  grpc::ClientContext upstream_context_;
  Upstream upstream_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  std::mutex mutex_;
  // True while requests may still be forwarded. While they may, a gRPC hold (AddHold) keeps
  // upstream_ alive between two of them, when no operation of it is in progress. Guarded by mutex_.
  bool takes_requests_ = false;
  // Initial metadata is forwarded as soon as it arrives, since a watcher may wait for it long
  // before the first event. A response that arrives first waits for it. Guarded by mutex_.
  bool headers_known_ = false;
  bool response_waits_ = false;
  // Replaces the status of the service, once set by End() or by a failed check. Guarded by mutex_.
  std::optional<absl::Status> ended_with_;
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_GRPC_GATE_CALL_H_
