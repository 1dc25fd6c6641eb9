// Searches of a corpus divided among any number of shards equal one search.
#include "retrieval/sharded_search.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "braid/v1/neighbors.grpc.pb.h"
#include "retrieval/neighbor_graph.h"
#include "retrieval/neighbor_service.h"
#include "tests/retrieval/retrieval_server.h"

namespace braid {
namespace sharded_search_test {

namespace fs = std::filesystem;

// Returns documents around some centers; a tenth repeat an earlier one, a few are zero.
std::vector<float> RandomDocuments(int64_t n, int32_t d, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> centers(static_cast<size_t>(7 * d)), values(static_cast<size_t>(n * d));
  for (float& value : centers) value = normal(random);
  for (int64_t i = 0; i < n; ++i) {
    float* row = values.data() + i * d;
    if (i > 0 && random() % 10 == 0) {
      std::copy_n(values.data() + static_cast<int64_t>(random() % i) * d, d, row);
      continue;
    }
    const float* center = centers.data() + random() % 7 * d;
    for (int32_t j = 0; j < d; ++j) row[j] = center[j] + normal(random);
    const float norm = std::sqrt(std::inner_product(row, row + d, row, 0.0f));
    const float scale = random() % 50 == 0 ? 0 : 1 / norm;
    for (int32_t j = 0; j < d; ++j) row[j] *= scale;
  }
  return values;
}

// Delays answers by up to some milliseconds, and cancels every eighth call but that of Drop, which
// is not repeated, as a server that shuts down does.
class LateService final : public v1::NeighborService::Service {
 public:
  LateService(const std::string& address, uint32_t seed)
      : stub_(v1::NeighborService::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        random_(seed) {}

#define BRAID_FORWARD(Method, Request, Response)                                                \
  grpc::Status Method(grpc::ServerContext*, const v1::Request* request, v1::Response* response) \
      override {                                                                                \
    if (Wait() && !std::is_same_v<v1::Request, v1::DropShardRequest>) {                         \
      return grpc::Status(grpc::StatusCode::CANCELLED, "");                                     \
    }                                                                                           \
    grpc::ClientContext context;                                                                \
    return stub_->Method(&context, *request, response);                                         \
  }
  BRAID_FORWARD(Create, CreateShardRequest, CreateShardResponse)
  BRAID_FORWARD(Describe, DescribeShardRequest, ShardDescription)
  BRAID_FORWARD(SetCentroids, SetCentroidsRequest, SetCentroidsResponse)
  BRAID_FORWARD(Add, AddVectorsRequest, AddVectorsResponse)
  BRAID_FORWARD(Search, SearchRequest, SearchResponse)
  BRAID_FORWARD(Seal, SealShardRequest, SealShardResponse)
  BRAID_FORWARD(Drop, DropShardRequest, DropShardResponse)
#undef BRAID_FORWARD

 private:
  // Returns whether to cancel the call.
  bool Wait() {
    std::unique_lock lock(mutex_);
    const std::chrono::microseconds delay(random_() % 4000);
    const bool cancels = ++calls_ % 8 == 0;
    lock.unlock();
    std::this_thread::sleep_for(delay);
    return cancels;
  }

  std::unique_ptr<v1::NeighborService::Stub> stub_;
  std::mutex mutex_;
  std::mt19937 random_;
  int calls_ = 0;
};

// Stores nothing: every sealed shard turns out to be damaged.
class DamagedService final : public v1::NeighborService::Service {
  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeShardRequest*,
                        v1::ShardDescription*) override {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no shard");
  }
  grpc::Status Create(grpc::ServerContext*, const v1::CreateShardRequest*,
                      v1::CreateShardResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status Add(grpc::ServerContext*, const v1::AddVectorsRequest*,
                   v1::AddVectorsResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status Seal(grpc::ServerContext*, const v1::SealShardRequest*,
                    v1::SealShardResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status Search(grpc::ServerContext*, const v1::SearchRequest*,
                      v1::SearchResponse*) override {
    return grpc::Status(grpc::StatusCode::DATA_LOSS, "bad checksum");
  }
  grpc::Status Drop(grpc::ServerContext*, const v1::DropShardRequest*,
                    v1::DropShardResponse*) override {
    return grpc::Status::OK;
  }
};

class ShardedSearchTest : public testing::Test {
 protected:
  ShardedSearchTest()
      : home_(fs::path(testing::TempDir()) /
              ("sharded-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~ShardedSearchTest() override { fs::remove_all(home_); }

  std::vector<std::string> StartServers(int count, bool late = false) {
    std::vector<std::string> addresses;
    for (int i = 0; i < count; ++i) {
      const fs::path directory = home_ / std::to_string(servers_.size());
      servers_.push_back(std::make_unique<LocalServer>(MakeNeighborService(directory)));
      if (late) {
        servers_.push_back(std::make_unique<LocalServer>(
            std::make_unique<LateService>(servers_.back()->address(), i)));
      }
      addresses.push_back(servers_.back()->address());
    }
    return addresses;
  }

  static std::unique_ptr<ShardedCorpus> MakeCorpus(const ShardedCorpusOptions& options) {
    auto corpus = ShardedCorpus::Make("test", options);
    EXPECT_TRUE(corpus.ok()) << corpus.status();
    return *std::move(corpus);
  }

  // Returns all shards in the homes of the servers.
  int NumShardsOnDisk() const {
    int count = 0;
    for (const auto& server : fs::directory_iterator(home_)) {
      count +=
          static_cast<int>(std::distance(fs::directory_iterator(server), fs::directory_iterator()));
    }
    return count;
  }

  fs::path home_;
  std::vector<std::unique_ptr<LocalServer>> servers_;
};

struct Graph {
  std::vector<uint32_t> ids;
  std::vector<float> scores;
  std::string description;
  double recall;
  bool operator==(const Graph&) const = default;
};

Graph Search(const DocumentVectors& vectors, const v1::NeighborConfig& config,
             RemoteNeighbors* remote) {
  const auto search = NeighborGraphSearch::Prepare(vectors, config, 5, nullptr, remote);
  EXPECT_TRUE(search.ok()) << search.status();
  const size_t size = vectors.n * search->k();
  Graph graph{std::vector<uint32_t>(size), std::vector<float>(size), search->description(), 0};
  const absl::Status status = search->Find(0, {graph.ids, graph.scores}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  graph.recall = search->Recall(graph.ids, graph.scores);
  return graph;
}

TEST(ShardRangeTest, DividesDocumentsWithoutGapInWholeBlocks) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t n = random() % 20'000, num_shards = 1 + random() % 12;
    int64_t end = 0;
    for (int64_t i = 0; i < num_shards; ++i) {
      const ShardRange range = ShardRange::Of(n, num_shards, i);
      EXPECT_EQ(range.begin, end);
      EXPECT_LE(range.begin, range.end);
      EXPECT_TRUE(range.begin % 1024 == 0 || n < 1024 * num_shards || range.begin == n);
      end = range.end;
    }
    EXPECT_EQ(end, n);
  }
}

TEST_F(ShardedSearchTest, EqualsOneSearchInAnyOrderOfAnswers) {
  std::mt19937 random(2);
  const std::vector<std::string> all = StartServers(6, /*late=*/true);
  for (int trial = 0; trial < 12; ++trial) {
    const int64_t n = trial == 0 ? 1 : 2 + random() % 700;
    const int32_t d = 4 + random() % 40;
    const size_t num_shards = 1 + random() % all.size();
    v1::NeighborConfig config;
    config.set_k(1 + random() % 20);
    config.set_recall_sample(50);
    if (trial % 3 == 2 && n > 50) config.set_index("IVF7,Flat");
    SCOPED_TRACE("trial " + std::to_string(trial) + ", n " + std::to_string(n) + ", shards " +
                 std::to_string(num_shards));
    const std::vector<float> values = RandomDocuments(n, d, trial);
    const auto corpus =
        MakeCorpus({.addresses = {all.begin(), all.begin() + num_shards},
                    .max_message_bytes = 2000 + static_cast<int64_t>(random() % 9000)});
    const Graph expected = Search({values, n, d}, config, nullptr);
    EXPECT_EQ(Search({values, n, d}, config, corpus.get()), expected);
    corpus->Drop();
    EXPECT_EQ(NumShardsOnDisk(), 0);
  }
}

TEST_F(ShardedSearchTest, HasTheRecallOfOneSearchThroughTheSameLists) {
  const int64_t n = 6000;
  const int32_t d = 32;
  const std::vector<float> values = RandomDocuments(n, d, 3);
  v1::NeighborConfig config;
  config.set_index("IVF80,Flat");
  config.set_k(10);
  const auto corpus = MakeCorpus({.addresses = StartServers(3)});
  const Graph expected = Search({values, n, d}, config, nullptr);
  const Graph found = Search({values, n, d}, config, corpus.get());
  EXPECT_LT(expected.recall, 1);
  EXPECT_EQ(found, expected);
}

TEST_F(ShardedSearchTest, ContinuesAPartialFillOfAnEarlierAttempt) {
  const int64_t n = 300;
  const std::vector<float> values = RandomDocuments(n, 16, 4);
  const std::vector<std::string> addresses = StartServers(2);
  // The search is cancelled while a shard is filled.
  int asked = 0;
  const auto corpus = MakeCorpus({.addresses = addresses, .max_message_bytes = 80});
  const absl::Status stopped = corpus->Load({values, n, 16}, {}, [&] {
    return ++asked > 2 ? absl::CancelledError("stop") : absl::OkStatus();
  });
  EXPECT_TRUE(stopped.ok() || absl::IsCancelled(stopped)) << stopped;
  const auto again = MakeCorpus({.addresses = addresses});
  v1::NeighborConfig config;
  EXPECT_EQ(Search({values, n, 16}, config, again.get()), Search({values, n, 16}, config, nullptr));
}

TEST_F(ShardedSearchTest, FillsALostShardAgain) {
  const int64_t n = 500;
  const std::vector<float> values = RandomDocuments(n, 16, 5);
  const DocumentVectors vectors{values, n, 16};
  const std::vector<std::string> addresses = StartServers(2);
  const auto corpus = MakeCorpus({.addresses = addresses});
  ASSERT_TRUE(corpus->Load(vectors, {}, nullptr).ok());
  ASSERT_EQ(NumShardsOnDisk(), 2);
  // Another client drops all shards.
  for (const std::string& address : addresses) {
    const auto stub = v1::NeighborService::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    for (const auto& server : fs::directory_iterator(home_)) {
      for (const auto& shard : fs::directory_iterator(server)) {
        v1::DropShardRequest request;
        request.set_shard(shard.path().filename().string());
        v1::DropShardResponse response;
        grpc::ClientContext context;
        EXPECT_TRUE(stub->Drop(&context, request, &response).ok());
      }
    }
  }
  ASSERT_EQ(NumShardsOnDisk(), 0);
  const auto search = corpus->MakeExactSearch(5);
  std::vector<uint32_t> documents(n), ids(n * 5), expected_ids(n * 5);
  std::iota(documents.begin(), documents.end(), 0u);
  std::vector<float> scores(n * 5), expected_scores(n * 5);
  const absl::Status status = search->Find(documents, {ids, scores}, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(MakeExactNeighborSearch(vectors, 5)
                  ->Find(documents, {expected_ids, expected_scores}, nullptr)
                  .ok());
  EXPECT_EQ(ids, expected_ids);
  EXPECT_EQ(scores, expected_scores);
}

// With DATA_LOSS, a job would discard the neighbors that it has found.
TEST_F(ShardedSearchTest, AServerThatAlwaysLosesItsShardIsUnavailable) {
  const std::vector<float> values = RandomDocuments(20, 16, 6);
  const LocalServer server(std::make_unique<DamagedService>());
  const auto corpus = MakeCorpus({.addresses = {server.address()}});
  ASSERT_TRUE(corpus->Load({values, 20, 16}, {}, nullptr).ok());
  const std::vector<uint32_t> documents = {0, 1};
  std::vector<uint32_t> ids(10);
  std::vector<float> scores(10);
  const absl::Status status = corpus->MakeExactSearch(5)->Find(documents, {ids, scores}, nullptr);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr(server.address()),
                             testing::HasSubstr("bad checksum (after it was filled 3 times)")));
}

TEST_F(ShardedSearchTest, ErrorsNameTheServerAndShardThatDoNotAnswer) {
  const std::vector<float> values = RandomDocuments(20, 16, 6);
  const std::vector<std::string> addresses = StartServers(2);
  servers_[1]->Stop();
  const auto corpus = MakeCorpus(
      {.addresses = addresses, .client = {.give_up_after = std::chrono::milliseconds(200)}});
  const absl::Status status = corpus->Load({values, 20, 16}, {}, nullptr);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("neighbor server " + addresses[1]),
                             testing::HasSubstr("shard test-"), testing::HasSubstr("-1-of-2"),
                             testing::HasSubstr("resume the job")));
}

TEST_F(ShardedSearchTest, StopsWaitingForAServerWhenCancelled) {
  const std::vector<float> values = RandomDocuments(20, 16, 7);
  const std::vector<std::string> addresses = StartServers(1);
  servers_[0]->Stop();
  const auto corpus = MakeCorpus({.addresses = addresses});
  const auto begin = std::chrono::steady_clock::now();
  int asked = 0;
  EXPECT_TRUE(absl::IsCancelled(corpus->Load({values, 20, 16}, {}, [&] {
    return ++asked > 2 ? absl::CancelledError("stop") : absl::OkStatus();
  })));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(ShardedCorpusTest, RefusesInvalidAddresses) {
  for (const char* address : {"", "host", "host:", "host:0", ":7"}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(ShardedCorpus::Make("x", {.addresses = {address}}).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ShardedCorpus::Make("x", {}).status()));
}

}  // namespace sharded_search_test
}  // namespace braid
