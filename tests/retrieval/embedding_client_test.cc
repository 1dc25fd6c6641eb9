#include "retrieval/embedding_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/base/status_matchers.h"
#include "tests/retrieval/embedding_calls.h"

namespace braid {
namespace embedding_client_test {

using embedding_calls::Documents;
using embedding_calls::Embed;
using embedding_calls::MakeHashing;
using embedding_calls::Server;

// Counts calls; answers with `status`, or with an invalid answer if it is OK.
class ScriptedEmbedder final : public Embedder {
 public:
  int32_t dimension() const override { return 2; }
  std::string fingerprint() const override { return "scripted"; }
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override {
    if (texts.empty()) return absl::OkStatus();
    ++num_calls;
    std::ranges::fill(vectors, value);
    return num_failures-- > 0 ? failure : absl::OkStatus();
  }

  mutable std::atomic<int> num_calls = 0;
  mutable std::atomic<int> num_failures = 0;
  absl::Status failure;
  float value = 0;
};

absl::Status EmbedStatus(const Embedder& embedder, std::string_view text) {
  std::vector<float> vector(embedder.dimension());
  return embedder.Embed({&text, 1}, vector);
}

std::unique_ptr<EmbeddingClient> Connect(const EmbeddingClientOptions& options) {
  auto client = EmbeddingClient::Connect(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
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
  Server first(embedder), second(embedder), third(embedder);
  const auto client = Connect({.addresses = {first.address(), second.address(), third.address()},
                               .batches_in_flight = 3,
                               .batch_bytes = 200});
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

TEST(EmbeddingClientTest, ContinuesWhenOneServerStops) {
  const auto embedder = MakeHashing(32);
  Server first(embedder), second(embedder);
  const auto client =
      Connect({.addresses = {first.address(), second.address()}, .batch_bytes = 200});
  first.Stop();
  EXPECT_EQ(Embed(*client, Documents(50)), Embed(*embedder, Documents(50)));
}

TEST(EmbeddingClientTest, UsesAReplicaAgainAfterItsRestart) {
  const auto embedder = MakeHashing(32);
  auto server = std::make_unique<Server>(embedder);
  const int port = server->port();
  std::atomic<int> num_checks = 0;
  const auto client = Connect({.addresses = {server->address()}, .batch_bytes = 200, .check = [&] {
                                 ++num_checks;
                                 return absl::OkStatus();
                               }});
  server.reset();
  num_checks = 0;
  std::jthread restart([&] {
    // The client checks once more for each event and each tick in which it waits.
    EXPECT_TRUE(WaitUntil([&] { return num_checks >= 10; }));
    server = std::make_unique<Server>(embedder, port);
  });
  EXPECT_EQ(Embed(*client, Documents(50)), Embed(*embedder, Documents(50)));
}

TEST(EmbeddingClientTest, RetriesTemporaryErrorsOnly) {
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

TEST(EmbeddingClientTest, FailsABatchAfterTheLastAttempt) {
  const auto embedder = std::make_shared<ScriptedEmbedder>();
  Server server(embedder);
  const auto client = Connect({.addresses = {server.address()}, .max_attempts = 3});
  embedder->failure = absl::UnavailableError("busy");
  embedder->num_failures = 100;
  EXPECT_TRUE(absl::IsUnavailable(EmbedStatus(*client, "x")));
  EXPECT_EQ(embedder->num_calls, 3);
}

TEST(EmbeddingClientTest, StopsWaitingWhenCancelled) {
  auto server = std::make_unique<Server>(MakeHashing(8));
  bool server_is_gone = false;
  int num_checks = 0;  // since then
  const auto client = Connect({.addresses = {server->address()}, .check = [&] {
                                 const bool stop = server_is_gone && ++num_checks >= 10;
                                 return stop ? absl::CancelledError("stop") : absl::OkStatus();
                               }});
  server.reset();
  server_is_gone = true;
  EXPECT_TRUE(absl::IsCancelled(EmbedStatus(*client, "x")));
}

TEST(EmbeddingClientTest, ReportsTheErrorOfEachAddressWithoutReplicas) {
  auto first = std::make_unique<Server>(MakeHashing(8));
  auto second = std::make_unique<Server>(MakeHashing(8));
  const std::vector<std::string> addresses = {first->address(), second->address()};
  const auto client =
      Connect({.addresses = addresses, .give_up_after = std::chrono::milliseconds(300)});
  first.reset();
  second.reset();
  const absl::Status status = EmbedStatus(*client, "x");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  for (const std::string& address : addresses) {
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(address));
  }
}

// Blocks in Embed until it is released.
class StuckEmbedder final : public Embedder {
 public:
  int32_t dimension() const override { return 2; }
  std::string fingerprint() const override { return "scripted"; }
  absl::Status Embed(std::span<const std::string_view>, std::span<float> vectors) const override {
    started = true;
    EXPECT_TRUE(WaitUntil([&] { return released.load(); }));
    std::ranges::fill(vectors, 0.0f);
    return absl::OkStatus();
  }
  mutable std::atomic<bool> started = false, released = false;
};

TEST(EmbeddingClientTest, SendsTheBatchesOfASilentReplicaToAnother) {
  const auto stuck = std::make_shared<StuckEmbedder>();
  const auto embedder = std::make_shared<ScriptedEmbedder>();
  Server first(stuck), second(embedder);
  const auto client = Connect({.addresses = {first.address(), second.address()},
                               .deadline = std::chrono::milliseconds(200),
                               .batch_bytes = 100});
  // The second replica may finish a call before the first one starts its batch.
  EXPECT_TRUE(WaitUntil([&] {
    EXPECT_EQ(Embed(*client, Documents(40)).size(), 80u);
    return stuck->started.load();
  }));
  stuck->released = true;
}

// Behaves like an encoder: is slow, prefers small batches, and reads 5 bytes of a text.
class SlowEmbedder final : public Embedder {
 public:
  explicit SlowEmbedder(std::chrono::milliseconds pause) : pause_(pause) {}

  int32_t dimension() const override { return 1; }
  std::string fingerprint() const override { return "slow"; }
  int64_t preferred_batch_texts() const override { return 8; }
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override {
    return EmbedAndCountCut(texts, vectors).status();
  }
  absl::StatusOr<int64_t> EmbedAndCountCut(std::span<const std::string_view> texts,
                                           std::span<float> vectors) const override {
    std::this_thread::sleep_for(pause_);
    ++num_calls;
    largest_batch = std::max<size_t>(largest_batch, texts.size());
    for (size_t i = 0; i < texts.size(); ++i) vectors[i] = texts[i].size() > 5 ? -1.0f : 1.0f;
    return std::ranges::count_if(texts, [](std::string_view text) { return text.size() > 5; });
  }

  mutable std::atomic<int> num_calls = 0;
  mutable std::atomic<size_t> largest_batch = 0;

 private:
  const std::chrono::milliseconds pause_;
};

TEST(EmbeddingClientTest, SendsPreferredBatchSizesAndCountsTruncatedTexts) {
  const auto embedder = std::make_shared<SlowEmbedder>(std::chrono::milliseconds(0));
  Server first(embedder), second(embedder);
  const auto client = Connect({.addresses = {first.address(), second.address()}});
  EXPECT_EQ(client->preferred_batch_texts() % 16, 0) << "whole batches, for both";
  std::vector<std::string> documents(100, "short");
  for (size_t i = 0; i < documents.size(); i += 9) documents[i] = "longer than that";
  const std::vector<std::string_view> texts(documents.begin(), documents.end());
  std::vector<float> vectors(texts.size());
  const auto num_cut = client->EmbedAndCountCut(texts, vectors);
  ASSERT_TRUE(num_cut.ok()) << num_cut.status();
  EXPECT_EQ(*num_cut, 12);
  EXPECT_EQ(embedder->num_calls, 13);
  EXPECT_EQ(embedder->largest_batch, 8u);
  EXPECT_EQ(vectors, Embed(*embedder, documents));
}

TEST(EmbeddingClientTest, WaitsForAServerThatSendsSignsOfLife) {
  const auto embedder = std::make_shared<SlowEmbedder>(std::chrono::milliseconds(500));
  Server server(embedder, EmbeddingServiceOptions{.sign_interval = std::chrono::milliseconds(20)});
  const auto client =
      Connect({.addresses = {server.address()}, .deadline = std::chrono::milliseconds(250)});
  EXPECT_EQ(Embed(*client, Documents(16)).size(), 16u);
  EXPECT_EQ(embedder->num_calls, 2) << "none was sent again";
}

// Such vectors would be stored, and every later job would reuse them. INTERNAL, because a job that
// fails with DATA_LOSS discards what is embedded.
TEST(EmbeddingClientTest, RefusesVectorsThatAreNotFiniteOrNotNormalized) {
  const auto embedder = std::make_shared<ScriptedEmbedder>();
  Server server(embedder);
  const auto client = Connect({.addresses = {server.address()}});
  for (const float value : {std::nanf(""), 0.6f, 1e30f}) {
    embedder->value = value;
    EXPECT_FAILS(EmbedStatus(*client, "x"), absl::StatusCode::kInternal, server.address(),
                 "malformed answer: batch 0: vector 0 has squared norm");
  }
  embedder->value = std::sqrt(0.5f);
  EXPECT_OK(EmbedStatus(*client, "x"));
}

TEST(EmbeddingClientTest, RefusesServersThatDisagree) {
  Server first(MakeHashing(8)), second(MakeHashing(16));
  const std::vector<std::string> both = {first.address(), second.address()};
  const auto status = EmbeddingClient::Connect({.addresses = both}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(first.address()));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(second.address()));
}

TEST(EmbeddingClientTest, DoesNotUseAReplicaThatRestartsWithAnotherEmbedder) {
  const auto embedder = MakeHashing(8);
  auto first = std::make_unique<Server>(embedder);
  Server second(embedder);
  const std::string address = first->address();
  const auto client = Connect({.addresses = {address, second.address()},
                               .give_up_after = std::chrono::milliseconds(500),
                               .batch_bytes = 100});
  const int port = first->port();
  first.reset();
  first = std::make_unique<Server>(MakeHashing(16), port);
  EXPECT_EQ(Embed(*client, Documents(50)), Embed(*embedder, Documents(50)));
  second.Stop();
  const absl::Status status = EmbedStatus(*client, "x");
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(address));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("restart the one that differs"));
}

TEST(EmbeddingClientTest, RefusesATextLargerThanAMessage) {
  Server server(MakeHashing(8));
  const auto client = Connect({.addresses = {server.address()}});
  EXPECT_TRUE(absl::IsInvalidArgument(EmbedStatus(*client, std::string(5'000'000, 'x'))));
}

TEST(EmbeddingClientTest, ReportsInvalidAddresses) {
  for (const char* address : {"", "nowhere", "host:", "host:0", "host:99999", ":7200"}) {
    const auto status = EmbeddingClient::Connect({.addresses = {address}}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address << status;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(EmbeddingClient::Connect({}).status()));
}

TEST(EmbeddingClientTest, ReportsAnUnreachableServer) {
  const std::string address = Server(MakeHashing(8)).address();
  const auto status = EmbeddingClient::Connect(
                          {.addresses = {address}, .give_up_after = std::chrono::milliseconds(300)})
                          .status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(address));
}

}  // namespace embedding_client_test
}  // namespace braid
