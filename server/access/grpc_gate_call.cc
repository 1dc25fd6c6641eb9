#include "server/access/grpc_gate_call.h"

#include <utility>

#include "rpc/grpc_caller.h"
#include "rpc/grpc_status.h"
#include "rpc/request_id.h"

namespace braid {

// The gate couples two gRPC streams, that of the client and that of the service (upstream_), by two
// independent loops of callbacks, each with one buffer:
//
//   requests   StartRead -> OnReadDone -> check -> upstream StartWrite -> OnRequestPassed -> ...
//   responses  upstream StartRead -> OnResponse -> StartWrite -> OnWriteDone -> ...
//
// gRPC calls OnDone of upstream_ as soon as none of its operations is in progress and no hold is
// left. While a loop waits for the client it has no operation upstream, so each loop has a hold. It
// must remove the hold exactly once, and start no operation upstream after that:
//   - the request loop does so in EndRequests; takes_requests_, under mutex_, makes the first of
//     several calls from different threads the only one that counts;
//   - the response loop does so where it ends: after the last response in OnResponse, or in
//     OnWriteDone when the client has disconnected.
// When both have ended, OnServiceDone finishes the client's stream. The client's OnDone follows,
// and then the gate may delete this object.

GateCall::GateCall(grpc::GenericCallbackServerContext* context, std::string request_id,
                   Admission admission, Hooks hooks)
    : context_(context),
      admission_(std::move(admission)),
      hooks_(std::move(hooks)),
      started_(std::chrono::steady_clock::now()),
      upstream_(this) {
  // Sent with a refusal as well; it shows a client that the status comes from braidd and not from a
  // library (rpc/grpc_call_identity.cc).
  context_->AddTrailingMetadata(kRequestIdKey, request_id);
  record_ = {.request_id = std::move(request_id),
             .principal = admission_.caller.name,
             .method = context_->method(),
             .peer = context_->peer(),
             .refusal = admission_.refusal};
}

void GateCall::Refuse(std::chrono::milliseconds delay) {
  const grpc::Status status = ToGrpc(admission_.status);
  if (delay.count() == 0) return FinishWith(status);
  // This object outlives the delay, even if the client disconnects: gRPC calls OnDone only after
  // Finish().
  delay_.Set(std::chrono::system_clock::now() + delay,
             [this, status](bool) { FinishWith(status); });
}

void GateCall::Forward(grpc::GenericStub& services) {
  // Services plan with the client's deadline; StopRun, for example, answers before it.
  upstream_context_.set_deadline(context_->deadline());
  upstream_context_.AddMetadata(kRequestIdKey, record_.request_id);
  SetCaller(admission_.caller.name, admission_.caller.role == Role::kOperator, &upstream_context_);
  services.PrepareBidiStreamingCall(&upstream_context_, record_.method, {}, &upstream_);
  // Without mutex_: no callback is called before StartCall().
  takes_requests_ = true;
  // Before StartCall: a call that fails at once would otherwise be done before the loops begin.
  upstream_.AddMultipleHolds(2);  // one each for requests and responses
  upstream_.StartRead(&response_);
  upstream_.StartCall();
  StartRead(&request_);
}

void GateCall::End(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    // Before the cancellation, which leads to OnServiceDone(). The first reason is kept.
    if (!ended_with_) ended_with_ = status;
  }
  upstream_context_.TryCancel();
}

// Ends the request loop; only the first call has an effect.
void GateCall::EndRequests(bool half_close) {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(takes_requests_, false)) return;
  }
  if (half_close) upstream_.StartWritesDone();
  upstream_.RemoveHold();
}

// Called when the client has sent a request or, with `ok` false, will not send another one.
void GateCall::OnReadDone(bool ok) {
  if (!ok) return EndRequests(/*half_close=*/true);
  const auto cancelled = [this] { return context_->IsCancelled(); };
  // Without mutex_, since a check of many paths takes long.
  if (const absl::Status problem = hooks_.check(&request_, cancelled); !problem.ok()) {
    End(problem);
    return EndRequests(/*half_close=*/false);
  }
  const std::lock_guard lock(mutex_);
  if (takes_requests_) upstream_.StartWrite(&request_);
}

void GateCall::OnRequestPassed(bool ok) {
  if (!ok) return EndRequests(/*half_close=*/false);
  const std::lock_guard lock(mutex_);
  request_.Clear();  // frees the memory while the gate waits for the next request
  // As long as this loop has its hold, the client's stream is not finished.
  if (takes_requests_) StartRead(&request_);
}

void GateCall::OnHeaders(bool ok) {
  const std::lock_guard lock(mutex_);
  headers_known_ = true;
  // The call has failed without headers; Finish() sends its status.
  if (!ok) return;
  for (const auto& [key, value] : upstream_context_.GetServerInitialMetadata()) {
    // Only metadata of the services is forwarded; gRPC adds that of the transport itself.
    if (!key.starts_with("braid-")) continue;
    context_->AddInitialMetadata({key.data(), key.size()}, {value.data(), value.size()});
  }
  StartSendInitialMetadata();
  if (response_waits_) StartWrite(&response_);
}

// Called when the service has sent a response or, with `ok` false, will not send another one; it
// then needs no more requests.
void GateCall::OnResponse(bool ok) {
  if (ok) {
    const std::lock_guard lock(mutex_);
    response_waits_ = !headers_known_;
    if (!response_waits_) StartWrite(&response_);
    return;
  }
  EndRequests(/*half_close=*/false);
  upstream_.RemoveHold();
}

void GateCall::OnWriteDone(bool ok) {
  if (ok) {
    response_.Clear();
    return upstream_.StartRead(&response_);
  }
  // The client has disconnected.
  upstream_context_.TryCancel();
  EndRequests(/*half_close=*/false);
  upstream_.RemoveHold();
}

void GateCall::OnCancel() {
  // A refused call was never forwarded.
  if (admission_.status.ok()) upstream_context_.TryCancel();
}

void GateCall::OnServiceDone(const grpc::Status& status) {
  std::optional<absl::Status> instead;
  {
    const std::lock_guard lock(mutex_);
    instead = ended_with_;
  }
  // Both loops have ended, so no write to the client is in progress.
  FinishWith(instead ? ToGrpc(*instead) : status);
}

// Ends the client's stream. This must be the last action on it, because OnDone may run at once on
// another thread.
void GateCall::FinishWith(const grpc::Status& status) {
  record_.code = static_cast<absl::StatusCode>(status.error_code());
  Finish(status);
}

void GateCall::OnDone() {
  record_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  // The gate drops its reference within on_done, which is a member of this object.
  const std::shared_ptr<GateCall> alive = shared_from_this();
  hooks_.on_done(alive, record_);
}

}  // namespace braid
