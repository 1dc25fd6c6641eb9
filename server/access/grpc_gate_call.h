// One call on its way through the gate: refused, or forwarded message by message in both
// directions until either side ends it.
//
// At most one message of each direction is held at a time, and the next is only read when it
// has been passed on, so a side that does not read slows the other down instead of filling
// memory.
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

// What was decided about a call.
struct Admission {
  // OK lets it in.
  absl::Status status = {};
  Refusal refusal = Refusal::kNone;
  // Empty for open methods.
  Caller caller = {};
  // Of a call that is let in.
  const MethodPolicy* policy = nullptr;
  // Which the call has until it ends.
  std::optional<CallKind> place = {};
};

// Requires exactly one of Refuse() and Forward(). Kept alive by its owner until `on_done` has
// been called, which is the last thing that happens.
class GateCall final : public grpc::ServerGenericBidiReactor,
                       public std::enable_shared_from_this<GateCall> {
 public:
  struct Hooks {
    // What is wrong with a request; ends the call with that status.
    std::function<absl::Status(grpc::ByteBuffer* request, const std::function<bool()>& cancelled)>
        check;
    std::function<void(const std::shared_ptr<GateCall>&, const CallRecord&)> on_done;
  };

  GateCall(grpc::GenericCallbackServerContext* context, std::string request_id, Admission admission,
           Hooks hooks);

  // Ends the call with the admission's status, after `delay`.
  void Refuse(std::chrono::milliseconds delay);
  void Forward(grpc::GenericStub& services);
  // Ends a call that was forwarded, from any thread, with this status.
  void End(const absl::Status& status);

  const Admission& admission() const { return admission_; }

 private:
  // The same call on its way to the service.
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

  // Of the client's side.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Of the service's side.
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
  // Whether requests may still be passed on; while they may, a hold keeps upstream_ from
  // ending between two of them. Guarded by mutex_.
  bool takes_requests_ = false;
  // What a service says ahead of its first response goes before it, and at once: a watcher may
  // wait for it long before there is an event. Guarded by mutex_.
  bool headers_known_ = false;
  bool response_waits_ = false;
  // Instead of the service's. Guarded by mutex_.
  std::optional<absl::Status> ended_with_;
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_GRPC_GATE_CALL_H_
