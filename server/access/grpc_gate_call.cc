#include "server/access/grpc_gate_call.h"

#include <utility>

#include "rpc/grpc_caller.h"
#include "rpc/grpc_status.h"
#include "rpc/request_id.h"

namespace braid {

GateCall::GateCall(grpc::GenericCallbackServerContext* context, std::string request_id,
                   Admission admission, Hooks hooks)
    : context_(context),
      admission_(std::move(admission)),
      hooks_(std::move(hooks)),
      started_(std::chrono::steady_clock::now()),
      upstream_(this) {
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
  delay_.Set(std::chrono::system_clock::now() + delay,
             [this, status](bool) { FinishWith(status); });
}

void GateCall::Forward(grpc::GenericStub& services) {
  upstream_context_.set_deadline(context_->deadline());
  upstream_context_.AddMetadata(kRequestIdKey, record_.request_id);
  SetCaller(admission_.caller.name, admission_.caller.role == Role::kOperator, &upstream_context_);
  services.PrepareBidiStreamingCall(&upstream_context_, record_.method, {}, &upstream_);
  takes_requests_ = true;
  upstream_.AddMultipleHolds(2);  // of requests, and of responses
  upstream_.StartRead(&response_);
  upstream_.StartCall();
  StartRead(&request_);
}

void GateCall::End(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_with_) ended_with_ = status;
  }
  upstream_context_.TryCancel();
}

// No request is passed on from here.
void GateCall::EndRequests(bool half_close) {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(takes_requests_, false)) return;
  }
  if (half_close) upstream_.StartWritesDone();
  upstream_.RemoveHold();
}

// Another request of the client, or the end of them.
void GateCall::OnReadDone(bool ok) {
  if (!ok) return EndRequests(/*half_close=*/true);
  const auto cancelled = [this] { return context_->IsCancelled(); };
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
  request_.Clear();  // the next may never come
  if (takes_requests_) StartRead(&request_);
}

void GateCall::OnHeaders(bool ok) {
  const std::lock_guard lock(mutex_);
  headers_known_ = true;
  if (!ok) return;
  for (const auto& [key, value] : upstream_context_.GetServerInitialMetadata()) {
    // Ours; the transport's own are made anew.
    if (!key.starts_with("braid-")) continue;
    context_->AddInitialMetadata({key.data(), key.size()}, {value.data(), value.size()});
  }
  StartSendInitialMetadata();
  if (response_waits_) StartWrite(&response_);
}

// A response of the service, or the end of them: then it needs no more requests.
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
  // The client is gone.
  upstream_context_.TryCancel();
  EndRequests(/*half_close=*/false);
  upstream_.RemoveHold();
}

void GateCall::OnCancel() {
  if (admission_.status.ok()) upstream_context_.TryCancel();
}

void GateCall::OnServiceDone(const grpc::Status& status) {
  std::optional<absl::Status> instead;
  {
    const std::lock_guard lock(mutex_);
    instead = ended_with_;
  }
  FinishWith(instead ? ToGrpc(*instead) : status);
}

// The last thing that is done on this side: OnDone may follow at once, on another thread.
void GateCall::FinishWith(const grpc::Status& status) {
  record_.code = static_cast<absl::StatusCode>(status.error_code());
  Finish(status);
}

void GateCall::OnDone() {
  record_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  const std::shared_ptr<GateCall> alive = shared_from_this();
  hooks_.on_done(alive, record_);
}

}  // namespace braid
