#include "retrieval/embedding_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "braid/v1/embedding.grpc.pb.h"
#include "retrieval/embedding_client.h"
#include "retrieval/hashing_embedder.h"

namespace braid {
namespace {

// An embedding server on a free port of this machine.
class Server {
 public:
  explicit Server(std::shared_ptr<const Embedder> embedder)
      : service_(MakeEmbeddingService(std::move(embedder))) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
  }
  ~Server() { Stop(); }

  void Stop() { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::unique_ptr<v1::EmbeddingService::Stub> stub() const {
    return v1::EmbeddingService::NewStub(server_->InProcessChannel({}));
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

std::shared_ptr<const Embedder> MakeHashing(int32_t dimension) {
  return *HashingEmbedder::Create({.dimension = dimension}, std::nullopt);
}

// Counts calls and texts, and answers with `status`, or wrongly if OK.
class ScriptedEmbedder final : public Embedder {
 public:
  int32_t dimension() const override { return 2; }
  std::string fingerprint() const override { return "scripted"; }
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override {
    if (texts.empty()) return absl::OkStatus();
    ++num_calls;
    largest_batch = std::max<size_t>(largest_batch, texts.size());
    std::ranges::fill(vectors, value);
    return num_failures-- > 0 ? failure : absl::OkStatus();
  }

  mutable std::atomic<int> num_calls = 0;
  mutable std::atomic<int> num_failures = 0;
  mutable std::atomic<size_t> largest_batch = 0;
  absl::Status failure;
  float value = 0;
};

std::vector<std::string> Documents(int count) {
  std::vector<std::string> documents;
  for (int i = 0; i < count; ++i) {
    documents.push_back("document " + std::to_string(i) + " about topic " + std::to_string(i % 7));
  }
  return documents;
}

std::vector<float> Embed(const Embedder& embedder, const std::vector<std::string>& documents) {
  const std::vector<std::string_view> texts(documents.begin(), documents.end());
  std::vector<float> vectors(texts.size() * embedder.dimension());
  const absl::Status status = embedder.Embed(texts, vectors);
  EXPECT_TRUE(status.ok()) << status;
  return vectors;
}

absl::Status EmbedStatus(const Embedder& embedder, std::string_view text) {
  std::vector<float> vector(embedder.dimension());
  return embedder.Embed({&text, 1}, vector);
}

std::unique_ptr<EmbeddingClient> Connect(const EmbeddingClientOptions& options) {
  auto client = EmbeddingClient::Connect(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

TEST(EmbeddingServiceTest, AnswersEveryBatchOfAStream) {
  const auto embedder = MakeHashing(16);
  Server server(embedder);
  grpc::ClientContext context;
  const auto stub = server.stub();
  const auto stream = stub->Embed(&context);
  for (int64_t batch : {5, 6, 7}) {
    v1::EmbedRequest request;
    request.set_batch(batch);
    request.add_texts("text " + std::to_string(batch));
    ASSERT_TRUE(stream->Write(request));
    v1::EmbedResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.batch(), batch);
    EXPECT_EQ(response.dimension(), 16);
    EXPECT_THAT(Embed(*embedder, {request.texts(0)}), testing::ElementsAreArray(response.values()));
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(EmbeddingClientTest, EqualsTheEmbedderItself) {
  const auto embedder = MakeHashing(64);
  Server server(embedder);
  const auto client = Connect({.addresses = {server.address()}});
  EXPECT_EQ(client->dimension(), 64);
  EXPECT_EQ(client->fingerprint(), embedder->fingerprint());
  std::vector<std::string> documents = Documents(200);
  documents[17] = "";
  EXPECT_EQ(Embed(*client, documents), Embed(*embedder, documents));
  EXPECT_TRUE(Embed(*client, {}).empty());
}

TEST(EmbeddingClientTest, SplitsIntoBatchesOverSeveralServers) {
  const auto embedder = MakeHashing(32);
  Server first(embedder), second(embedder);
  const auto client = Connect({.addresses = {first.address(), second.address()},
                               .max_parallel = 3,
                               .max_batch_bytes = 200});
  EXPECT_EQ(Embed(*client, Documents(100)), Embed(*embedder, Documents(100)));
}

TEST(EmbeddingClientTest, SendsMoreThanOneMessageCanHold) {
  const auto embedder = MakeHashing(8);
  Server server(embedder);
  const auto client = Connect({.addresses = {server.address()}});
  std::vector<std::string> documents(3, std::string(3'000'000, 'x'));
  documents.insert(documents.end(), 9000, "short");
  EXPECT_EQ(Embed(*client, documents), Embed(*embedder, documents));
}

TEST(EmbeddingClientTest, GoesOnWhenOneServerStops) {
  const auto embedder = MakeHashing(32);
  Server first(embedder), second(embedder);
  const auto client =
      Connect({.addresses = {first.address(), second.address()}, .max_batch_bytes = 200});
  first.Stop();
  EXPECT_EQ(Embed(*client, Documents(50)), Embed(*embedder, Documents(50)));
}

TEST(EmbeddingClientTest, TriesAgainOnlyWhenUnavailable) {
  const auto embedder = std::make_shared<ScriptedEmbedder>();
  Server server(embedder);
  const auto client = Connect({.addresses = {server.address()}});
  embedder->failure = absl::UnavailableError("busy");
  embedder->num_failures = 2;
  EXPECT_TRUE(EmbedStatus(*client, "x").ok());
  EXPECT_EQ(embedder->num_calls, 3);

  embedder->failure = absl::InternalError("broken");
  embedder->num_failures = 1;
  const absl::Status status = EmbedStatus(*client, "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("broken"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(server.address()));
  EXPECT_EQ(embedder->num_calls, 4);
}

TEST(EmbeddingClientTest, GivesUpAfterTheLastAttempt) {
  const auto embedder = std::make_shared<ScriptedEmbedder>();
  Server server(embedder);
  const auto client = Connect({.addresses = {server.address()}, .max_attempts = 3});
  embedder->failure = absl::UnavailableError("busy");
  embedder->num_failures = 100;
  EXPECT_TRUE(absl::IsUnavailable(EmbedStatus(*client, "x")));
  EXPECT_EQ(embedder->num_calls, 3);
}

TEST(EmbeddingClientTest, RefusesAnswersThatAreNotNumbers) {
  const auto embedder = std::make_shared<ScriptedEmbedder>();
  embedder->value = std::nanf("");
  Server server(embedder);
  const auto client = Connect({.addresses = {server.address()}});
  EXPECT_TRUE(absl::IsDataLoss(EmbedStatus(*client, "x")));
}

TEST(EmbeddingClientTest, RefusesServersThatDisagree) {
  Server first(MakeHashing(8)), second(MakeHashing(16));
  const auto client = Connect({.addresses = {first.address(), second.address()}});
  // Round robin reaches the other one within two calls once both are connected.
  absl::Status status;
  for (int i = 0; i < 10'000 && status.ok(); ++i) status = EmbedStatus(*client, "x");
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST(EmbeddingClientTest, RefusesATextLargerThanAMessage) {
  Server server(MakeHashing(8));
  const auto client = Connect({.addresses = {server.address()}});
  EXPECT_TRUE(absl::IsResourceExhausted(EmbedStatus(*client, std::string(5'000'000, 'x'))));
}

TEST(EmbeddingClientTest, ReportsUselessAddresses) {
  for (const char* address : {"", "nowhere", "host:", "host:0", "host:99999", ":7200"}) {
    const auto status = EmbeddingClient::Connect({.addresses = {address}}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address << status;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(EmbeddingClient::Connect({}).status()));
}

TEST(EmbeddingClientTest, ReportsAServerThatIsNotThere) {
  std::string address;
  {
    Server server(MakeHashing(8));
    address = server.address();
  }
  const auto status =
      EmbeddingClient::Connect({.addresses = {address}, .max_attempts = 2}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(address));
}

}  // namespace
}  // namespace braid
