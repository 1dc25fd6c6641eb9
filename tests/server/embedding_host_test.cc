// The embedding service as braidd hosts it, with the embedder that --embedder names.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "retrieval/embedding_client.h"
#include "server/grpc_host.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/retrieval/tiny_bert.h"

namespace braid {
namespace embedding_host_test {

class EmbeddingHostTest : public testing::Test {
 protected:
  EmbeddingHostTest() { setenv("BRAID_EMBEDDER_PROGRAM", BRAID_EMBEDDER, 1); }

  absl::StatusOr<std::unique_ptr<ServiceHost>> Host(const std::string& embedder) {
    HostOptions options;
    options.home = scratch_ / "home";
    options.services = {ServiceName::kEmbedding};
    options.listen = "127.0.0.1:0";
    options.embedder = embedder;
    return ServiceHost::Start(options);
  }

  ScratchDirectory scratch_;
};

TEST_F(EmbeddingHostTest, ServesABertEncoder) {
  const std::filesystem::path model = scratch_ / "bert";
  WriteTinyBert({}, model);
  ASSERT_OK_AND_ASSIGN(const auto host, Host("contriever:" + model.string()));
  ASSERT_OK_AND_ASSIGN(
      const auto client,
      EmbeddingClient::Connect({.addresses = {"127.0.0.1:" + std::to_string(host->port())}}));
  EXPECT_EQ(client->dimension(), 24);
  EXPECT_EQ(client->fingerprint().rfind("contriever-", 0), 0u);
  EXPECT_EQ(client->preferred_batch_texts() % 64, 0) << "the gate lets through what it wants";
  EXPECT_GT(client->preferred_batch_texts(), 0);
  std::vector<float> vectors(2 * 24);
  ASSERT_OK(client->Embed(std::vector<std::string_view>{"abc d", ""}, vectors));
  double squares = 0;
  for (const float x : vectors) squares += static_cast<double>(x) * x;
  EXPECT_NEAR(squares, 1, 1e-5) << "the second is zero";
  std::string longer;
  for (int i = 0; i < 100; ++i) longer += "abc d ";
  const std::vector<std::string_view> texts = {longer, "abc"};
  EXPECT_EQ(client->EmbedAndCountCut(texts, vectors).value_or(-1), 1);
}

TEST_F(EmbeddingHostTest, RefusesUnknownEmbedders) {
  EXPECT_FAILS(Host("bert"), absl::StatusCode::kInvalidArgument, "--embedder", "\"bert\"");
  EXPECT_FAILS(Host("contriever:"), absl::StatusCode::kInvalidArgument, "contriever:DIRECTORY");
  EXPECT_FAILS(Host("contriever:/nowhere"), absl::StatusCode::kNotFound, "/nowhere/config.json");
  EXPECT_OK(Host("hashing"));
}

}  // namespace embedding_host_test
}  // namespace braid
