// Calls every method of every service that braidd can serve with all kinds of callers that must be
// refused. A method without a policy, or one that answers before the check, fails here.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <ctime>
#include <future>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "braid/v1/pipeline.grpc.pb.h"
#include "server/access/access_policy.h"
#include "server/access/token_file.h"
#include "server/grpc_host.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/server/access/served_methods.h"
#include "tests/server/access/test_certificates.h"

namespace braid {
namespace every_method_test {

using grpc::StatusCode;

constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// Returns the paths of all methods, those of the standard services first.
std::vector<std::string> EveryMethod() {
  std::vector<std::string> methods = {"/grpc.health.v1.Health/Check",
                                      "/grpc.health.v1.Health/Watch", kReflection};
  for (const google::protobuf::MethodDescriptor* const method : ServedMethods()) {
    methods.push_back("/" + std::string(method->service()->full_name()) + "/" +
                      std::string(method->name()));
  }
  return methods;
}

bool IsHealth(const std::string& method) { return method.starts_with("/grpc.health."); }

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  (void)buffer.Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// Sends a message and ends the requests. Returns the status; DEADLINE_EXCEEDED for open streams.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                  const std::string& token, const std::string& message = "",
                  std::string* answer = nullptr) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  class Reactor : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Reactor(grpc::ClientContext* context) : context_(context) {}
    void OnWriteDone(bool ok) override {
      if (ok) StartWritesDone();
    }
    void OnReadDone(bool ok) override {
      if (!ok) return;
      answered_ = true;  // the call was admitted; a stream need not end
      context_->TryCancel();
    }
    void OnDone(const grpc::Status& status) override {
      done_.set_value(answered_ ? grpc::Status::OK : status);
    }
    grpc::ClientContext* context_;
    bool answered_ = false;
    std::promise<grpc::Status> done_;
  } reactor(&context);
  grpc::GenericStub stub(channel);
  const grpc::Slice slice(message);
  grpc::ByteBuffer request(&slice, 1), response;
  stub.PrepareBidiStreamingCall(&context, method, {}, &reactor);
  reactor.StartWrite(&request);
  reactor.StartRead(&response);
  reactor.StartCall();
  const grpc::Status status = reactor.done_.get_future().get();
  if (answer != nullptr && reactor.answered_) *answer = BytesOf(response);
  return status;
}

class EveryMethodTest : public ::testing::Test {
 protected:
  EveryMethodTest() : authority_("braid test authority"), server_(authority_.Issue("server")) {
    PutFile(scratch_ / "ca.pem", authority_.certificate());
    PutFile(scratch_ / "server.pem", server_.certificate);
    PutFile(scratch_ / "server.key", server_.key);
    client_ = authority_.Issue("client");
  }

  void Start(bool tls) {
    HostOptions options;
    options.home = Home();
    options.services = {ServiceName::kPipeline,   ServiceName::kTraining, ServiceName::kAnalysis,
                        ServiceName::kGeneration, ServiceName::kStorage,  ServiceName::kEmbedding,
                        ServiceName::kNeighbors};
    options.listen = "127.0.0.1:0";
    options.run_jobs = false;
    options.refusal_delay = std::chrono::milliseconds(0);
    if (tls) {
      options.tls = {scratch_ / "server.pem", scratch_ / "server.key", scratch_ / "ca.pem"};
    } else {
      options.require_token = true;
    }
    auto host = ServiceHost::Start(options);
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }

  std::filesystem::path Home() const { return scratch_ / "home"; }
  std::string Address() const { return "127.0.0.1:" + std::to_string(host_->port()); }

  std::shared_ptr<grpc::Channel> Plain() const {
    return grpc::CreateChannel(Address(), grpc::InsecureChannelCredentials());
  }
  std::shared_ptr<grpc::Channel> Tls(const TestCertificate& client) const {
    return grpc::CreateChannel(Address(), grpc::SslCredentials({authority_.certificate(),
                                                                client.key, client.certificate}));
  }
  std::string Token(Role role, int64_t lifetime_seconds = 0) const {
    return CreateToken(Home(), std::string(RoleName(role)), role, lifetime_seconds, "")
        .value()
        .token;
  }
  std::string ExpiredToken() const {
    const CreatedToken created = CreateToken(Home(), "late", Role::kOperator, 1, "").value();
    std::string text = GetFile(TokenPath(Home()));
    const std::string expiry = std::to_string(created.entry.expires_at);
    text.replace(text.find(expiry), expiry.size(), std::to_string(std::time(nullptr) - 1));
    EXPECT_OK(WriteFileAtomically(TokenPath(Home()), text, Durability::kRenamed, 0600));
    return created.token;
  }
  // No call has created a job or a run.
  void ExpectNothingDone() const {
    EXPECT_TRUE(!std::filesystem::exists(Home() / "runs") ||
                std::filesystem::is_empty(Home() / "runs"));
    grpc::ClientContext context;
    v1::ListJobsResponse jobs;
    const auto stub = v1::PipelineService::NewStub(host_->InProcessChannel());
    EXPECT_TRUE(stub->ListJobs(&context, {}, &jobs).ok());
    EXPECT_EQ(jobs.jobs_size(), 0);
  }

  void ExpectAllRefused(const std::shared_ptr<grpc::Channel>& channel, const std::string& token,
                        StatusCode code, const std::string& who) {
    for (const std::string& method : EveryMethod()) {
      if (IsHealth(method) && code != StatusCode::UNAVAILABLE) continue;
      const grpc::Status status = Call(channel, method, token);
      EXPECT_EQ(status.error_code(), code)
          << who << " " << method << ": " << status.error_message();
    }
    ExpectNothingDone();
  }

  // For each role, allowed calls reach the service and others are refused.
  void ExpectRolesHold(const std::shared_ptr<grpc::Channel>& channel) {
    for (const Role role : {Role::kViewer, Role::kSubmitter, Role::kOperator}) {
      const std::string token = Token(role);
      for (const std::string& method : EveryMethod()) {
        const MethodPolicy* const policy = FindPolicy(method);
        ASSERT_NE(policy, nullptr) << method << " has no policy";
        const grpc::Status status = Call(channel, method, token);
        const bool refused = status.error_code() == StatusCode::PERMISSION_DENIED ||
                             status.error_code() == StatusCode::UNAUTHENTICATED ||
                             status.error_code() == StatusCode::UNAVAILABLE;
        EXPECT_EQ(refused, role < policy->role)
            << RoleName(role) << " " << method << ": " << status.error_code() << " "
            << status.error_message();
        EXPECT_NE(status.error_code(), StatusCode::UNIMPLEMENTED) << method << " has no service";
      }
    }
  }

  ScratchDirectory scratch_;
  TestAuthority authority_;
  TestCertificate server_, client_;
  std::unique_ptr<ServiceHost> host_;
};

TEST_F(EveryMethodTest, HasAPolicyAndEveryPolicyHasAMethod) {
  std::set<std::string> methods;
  for (const std::string& method : EveryMethod()) {
    EXPECT_NE(FindPolicy(method), nullptr) << method << " has no policy";
    methods.insert(method);
  }
  for (const MethodPolicy& policy : AllPolicies()) {
    const std::string method(policy.method);
    EXPECT_TRUE(methods.contains(method) || method.starts_with("/grpc.reflection.v1.")) << method;
  }
  EXPECT_EQ(FindPolicy("/braid.v1.PipelineService/DropEverything"), nullptr);
}

// Returns the names in backticks of the table row of `page` whose first cell is `role`.
std::set<std::string> DocumentedMethods(const std::string& page, const std::string& role) {
  const size_t begin = page.find("\n| " + role + " | ");
  if (begin == std::string::npos) return {};
  const std::string row = page.substr(begin + 1, page.find('\n', begin + 1) - begin - 1);
  std::set<std::string> names;
  for (size_t at = row.find('`'); at != std::string::npos; at = row.find('`', at + 1)) {
    const size_t end = row.find('`', at + 1);
    names.insert(row.substr(at + 1, end - at - 1));
    at = end;
  }
  return names;
}

TEST_F(EveryMethodTest, IsInTheDocumentedTable) {
  const std::string page = GetFile(BRAID_TESTS_DIR "/../docs/security.md");
  std::map<std::string, std::set<std::string>> methods;
  for (const std::string& method : EveryMethod()) {
    const MethodPolicy& policy = *FindPolicy(method);
    const std::string role = policy.open ? "anybody" : std::string(RoleName(policy.role));
    methods[role].insert(method.substr(method.rfind('.') + 1));
  }
  for (const auto& [role, names] : methods) EXPECT_EQ(DocumentedMethods(page, role), names) << role;
}

TEST_F(EveryMethodTest, RefusesConnectionsWithoutAValidCertificate) {
  Start(/*tls=*/true);
  const std::string token = Token(Role::kOperator);
  const auto no_certificate =
      grpc::CreateChannel(Address(), grpc::SslCredentials({authority_.certificate(), "", ""}));
  const TestAuthority other("another authority");
  ExpectAllRefused(no_certificate, token, StatusCode::UNAVAILABLE, "no certificate");
  ExpectAllRefused(Tls(other.Issue("client")), token, StatusCode::UNAVAILABLE, "wrong CA");
  ExpectAllRefused(Tls(authority_.Issue("client", -1)), token, StatusCode::UNAVAILABLE, "expired");
  ExpectAllRefused(Plain(), token, StatusCode::UNAVAILABLE, "no TLS");
}

TEST_F(EveryMethodTest, RefusesCallersWithoutAValidToken) {
  const std::string revoked = Token(Role::kOperator);
  ASSERT_OK(RevokeTokens(Home(), revoked.substr(6, 8)));
  const std::string expired = ExpiredToken();
  const std::string good = Token(Role::kOperator);
  std::string wrong = good;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  for (const bool tls : {true, false}) {
    Start(tls);
    const auto channel = tls ? Tls(client_) : Plain();
    for (const auto& [who, token] : std::map<std::string, std::string>{{"no token", ""},
                                                                       {"garbage", "open sesame"},
                                                                       {"one digit off", wrong},
                                                                       {"cut", good.substr(0, 15)},
                                                                       {"revoked", revoked},
                                                                       {"expired", expired}}) {
      ExpectAllRefused(channel, token, StatusCode::UNAUTHENTICATED, who);
    }
    host_.reset();
  }
}

TEST_F(EveryMethodTest, AdmitsExactlyTheRolesOfItsPolicy) {
  for (const bool tls : {true, false}) {
    Start(tls);
    ExpectRolesHold(tls ? Tls(client_) : Plain());
    host_.reset();
  }
}

// Debian has no generated code for reflection and health, so their messages are written out here.
TEST_F(EveryMethodTest, ReflectionListsTheServicesForAllowedCallers) {
  Start(/*tls=*/true);
  const std::string list_services = "\x3a\x01*";
  std::string answer;
  EXPECT_EQ(Call(Tls(client_), kReflection, "", list_services, &answer).error_code(),
            StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(answer, "");
  EXPECT_TRUE(Call(Tls(client_), kReflection, Token(Role::kViewer), list_services, &answer).ok());
  for (const std::string& method : EveryMethod()) {
    const std::string service = method.substr(1, method.rfind('/') - 1);
    EXPECT_THAT(answer, testing::HasSubstr(service));
  }
}

TEST_F(EveryMethodTest, HealthIsReportedForEachService) {
  Start(/*tls=*/false);
  const auto check = [&](const std::string& service, std::string* answer) {
    const std::string message =
        service.empty() ? "" : "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
    return Call(Plain(), "/grpc.health.v1.Health/Check", "", message, answer).error_code();
  };
  for (const char* service :
       {"", "braid.v1.PipelineService", "braid.v1.TrainingService", "braid.v1.AnalysisService",
        "braid.v1.GenerationService", "braid.v1.StorageService", "braid.v1.EmbeddingService",
        "braid.v1.NeighborService"}) {
    std::string answer;
    EXPECT_EQ(check(service, &answer), StatusCode::OK) << service;
    EXPECT_EQ(answer, "\x08\x01") << service;  // SERVING
  }
  std::string answer;
  EXPECT_EQ(check("braid.v1.NoService", &answer), StatusCode::NOT_FOUND);
}

TEST_F(EveryMethodTest, WithoutAPolicyIsRefusedEvenForAnOperator) {
  Start(/*tls=*/false);
  EXPECT_EQ(Call(Plain(), "/braid.v1.PipelineService/DropEverything", Token(Role::kOperator))
                .error_code(),
            StatusCode::PERMISSION_DENIED);
}

TEST_F(EveryMethodTest, RefusesARevokedTokenOnTheSameConnection) {
  Start(/*tls=*/true);
  const auto channel = Tls(client_);
  const std::string token = Token(Role::kViewer);
  const std::string method = "/braid.v1.PipelineService/ListJobs";
  EXPECT_TRUE(Call(channel, method, token).ok());
  // The token of one call does not apply to the next.
  EXPECT_EQ(Call(channel, method, "").error_code(), StatusCode::UNAUTHENTICATED);
  ASSERT_OK(RevokeTokens(Home(), "viewer"));
  EXPECT_EQ(Call(channel, method, token).error_code(), StatusCode::UNAUTHENTICATED);
}

TEST_F(EveryMethodTest, IdentifiesAPrincipalByItsCertificate) {
  ASSERT_OK(CreateToken(Home(), "robot", Role::kViewer, 0, "client"));
  Start(/*tls=*/true);
  EXPECT_TRUE(Call(Tls(client_), "/braid.v1.PipelineService/ListJobs", "").ok());
  EXPECT_EQ(Call(Tls(client_), "/braid.v1.PipelineService/CancelJob", "").error_code(),
            StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(
      Call(Tls(authority_.Issue("other")), "/braid.v1.PipelineService/ListJobs", "").error_code(),
      StatusCode::UNAUTHENTICATED);
}

}  // namespace every_method_test
}  // namespace braid
