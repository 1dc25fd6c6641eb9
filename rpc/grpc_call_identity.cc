#include "rpc/grpc_call_identity.h"

#include <grpcpp/support/status.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/connection_error.h"
#include "rpc/grpc_status.h"
#include "rpc/request_id.h"

namespace braid {
namespace {

using grpc::experimental::InterceptionHookPoints;

// Returns whether the status is an answer of braidd, which adds the request id to every status that
// it sends.
bool IsAnswer(grpc::experimental::InterceptorBatchMethods* methods) {
  const auto* const metadata = methods->GetRecvTrailingMetadata();
  return metadata != nullptr && metadata->contains(kRequestIdKey);
}

class Interceptor final : public grpc::experimental::Interceptor {
 public:
  Interceptor(const std::string& token, const std::string& braidd)
      : token_(token), braidd_(braidd), request_id_(NewCallId()) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      auto* const metadata = methods->GetSendInitialMetadata();
      metadata->emplace(kRequestIdKey, request_id_);
      if (!token_.empty()) metadata->emplace("authorization", absl::StrCat("Bearer ", token_));
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_STATUS)) {
      Explain(IsAnswer(methods), methods->GetRecvStatus());
    }
    methods->Proceed();
  }

 private:
  void Explain(bool is_answer, grpc::Status* status) const {
    if (status->ok()) return;
    // The gate adds the id to the text of gRPC as well.
    if ((!is_answer || IsPassedDeadline(*status)) && !braidd_.empty()) {
      *status = ToGrpc(UnansweredCallError(braidd_, FromGrpc(*status)));
      return;
    }
    *status = grpc::Status(status->error_code(),
                           absl::StrCat(status->error_message(), " (request ", request_id_, ")"),
                           status->error_details());
  }

  // Owned by the factory, which the channel owns; a call keeps its channel alive.
  const std::string& token_;
  const std::string& braidd_;
  const std::string request_id_;
};

class Factory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  Factory(std::string token, std::string braidd)
      : token_(std::move(token)), braidd_(std::move(braidd)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new Interceptor(token_, braidd_);
  }

 private:
  const std::string token_, braidd_;
};

}  // namespace

std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> CallIdentity(
    std::string token, std::string braidd) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<Factory>(std::move(token), std::move(braidd)));
  return factories;
}

}  // namespace braid
