#include "rpc/grpc_call_identity.h"

#include <grpcpp/support/status.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/request_id.h"

namespace braid {
namespace {

using grpc::experimental::InterceptionHookPoints;

class Interceptor final : public grpc::experimental::Interceptor {
 public:
  explicit Interceptor(const std::string& token) : token_(token), request_id_(NewCallId()) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      auto* const metadata = methods->GetSendInitialMetadata();
      metadata->emplace(kRequestIdKey, request_id_);
      if (!token_.empty()) metadata->emplace("authorization", absl::StrCat("Bearer ", token_));
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_STATUS)) {
      NameRequest(methods->GetRecvStatus());
    }
    methods->Proceed();
  }

 private:
  void NameRequest(grpc::Status* status) const {
    if (status->ok()) return;
    *status = grpc::Status(status->error_code(),
                           absl::StrCat(status->error_message(), " (request ", request_id_, ")"),
                           status->error_details());
  }

  const std::string& token_;
  const std::string request_id_;
};

class Factory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit Factory(std::string token) : token_(std::move(token)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new Interceptor(token_);
  }

 private:
  const std::string token_;
};

}  // namespace

std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> CallIdentity(
    std::string token) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<Factory>(std::move(token)));
  return factories;
}

}  // namespace braid
