#include "retrieval/embedding_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "braid/v1/embedding.grpc.pb.h"
#include "retrieval/embedding_client.h"
#include "tests/base/status_matchers.h"
#include "tests/retrieval/embedding_calls.h"

namespace braid {
namespace embedding_service_test {

using embedding_calls::Documents;
using embedding_calls::Embed;
using embedding_calls::MakeHashing;
using embedding_calls::Server;

std::unique_ptr<v1::EmbeddingService::Stub> StubOf(const Server& server) {
  return v1::EmbeddingService::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
}

TEST(EmbeddingServiceTest, AnswersEveryBatchOfAStream) {
  const auto embedder = MakeHashing(16);
  Server server(embedder);
  grpc::ClientContext context;
  const auto stub = StubOf(server);
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

TEST(EmbeddingServiceTest, RefusesStreamsAboveTheLimitAndClientsUseOtherReplicas) {
  const auto embedder = MakeHashing(8);
  Server busy(embedder, EmbeddingServiceOptions{.max_streams = 1}), other(embedder);
  grpc::ClientContext context;
  const auto stub = StubOf(busy);
  const auto stream = stub->Embed(&context);
  stream->WaitForInitialMetadata();
  grpc::ClientContext second_context;
  const auto second = stub->Embed(&second_context);
  v1::EmbedResponse response;
  EXPECT_FALSE(second->Read(&response));
  EXPECT_EQ(second->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);

  ASSERT_OK_AND_ASSIGN(const auto client,
                       EmbeddingClient::Connect({.addresses = {busy.address(), other.address()}}));
  EXPECT_EQ(Embed(*client, Documents(5)), Embed(*embedder, Documents(5)));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(EmbeddingServiceTest, RefusesABatchWhoseAnswerIsTooLarge) {
  Server server(MakeHashing(1024));
  grpc::ClientContext context;
  const auto stub = StubOf(server);
  const auto stream = stub->Embed(&context);
  v1::EmbedRequest request;
  for (int i = 0; i < 1100; ++i) request.add_texts("x");
  stream->Write(request);
  v1::EmbedResponse response;
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("got 1100 texts, expected at most 976"));
}

}  // namespace embedding_service_test
}  // namespace braid
