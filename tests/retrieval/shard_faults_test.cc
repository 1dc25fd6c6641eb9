// Neighbor servers that are killed while they are filled and searched: real braidd processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "retrieval/neighbor_search.h"
#include "retrieval/sharded_search.h"
#include "tests/retrieval/retrieval_server.h"

namespace braid {
namespace shard_faults_test {

namespace fs = std::filesystem;

constexpr int64_t kDocuments = 3000;
constexpr int32_t kDimension = 32, kNeighbors = 5;

std::vector<float> RandomDocuments() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(kDocuments * kDimension);
  for (float& value : values) value = normal(random);
  for (int64_t i = 0; i < kDocuments; ++i) {
    float* row = values.data() + i * kDimension;
    const float norm = std::sqrt(std::inner_product(row, row + kDimension, row, 0.0f));
    for (int32_t j = 0; j < kDimension; ++j) row[j] /= norm;
  }
  return values;
}

class ShardFaultsTest : public testing::Test {
 protected:
  ShardFaultsTest() : values_(RandomDocuments()), vectors_{values_, kDocuments, kDimension} {
    std::iota(documents_.begin(), documents_.end(), 0u);
    EXPECT_TRUE(MakeExactNeighborSearch(vectors_, kNeighbors)
                    ->Find(documents_, {expected_ids_, expected_scores_}, nullptr)
                    .ok());
  }

  std::unique_ptr<ShardedCorpus> MakeCorpus(int64_t max_message_bytes) {
    ShardedCorpusOptions options;
    for (BraiddProcess& server : servers_) options.addresses.push_back(server.address());
    options.max_message_bytes = max_message_bytes;
    options.max_refills = 20;
    auto corpus = ShardedCorpus::Make("faults", options);
    EXPECT_TRUE(corpus.ok()) << corpus.status();
    return *std::move(corpus);
  }

  void ExpectExactNeighbors(ShardedCorpus* corpus) {
    std::vector<uint32_t> ids(expected_ids_.size());
    std::vector<float> scores(ids.size());
    const absl::Status status =
        corpus->MakeExactSearch(kNeighbors)->Find(documents_, {ids, scores}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(ids == expected_ids_);
    EXPECT_TRUE(scores == expected_scores_);
  }

  const std::vector<float> values_;
  const DocumentVectors vectors_;
  std::vector<uint32_t> documents_ = std::vector<uint32_t>(kDocuments);
  std::vector<uint32_t> expected_ids_ = std::vector<uint32_t>(kDocuments * kNeighbors);
  std::vector<float> expected_scores_ = std::vector<float>(kDocuments * kNeighbors);
  BraiddProcess servers_[2] = {BraiddProcess("neighbors"), BraiddProcess("neighbors")};
};

TEST_F(ShardFaultsTest, ASealedShardIsReadAgainAfterAKill) {
  const auto corpus = MakeCorpus(100'000);
  ASSERT_TRUE(corpus->Load(vectors_, {}, nullptr).ok());
  for (BraiddProcess& server : servers_) {
    server.Kill();
    server.Start();
  }
  ExpectExactNeighbors(corpus.get());
}

TEST_F(ShardFaultsTest, SearchContinuesWhileServersAreKilled) {
  const auto corpus = MakeCorpus(4000);  // many calls
  ASSERT_TRUE(corpus->Load(vectors_, {}, nullptr).ok());
  std::atomic<bool> done = false;
  std::jthread search([&] {
    while (!done) ExpectExactNeighbors(corpus.get());
  });
  for (int i = 0; i < 6; ++i) {
    servers_[i % 2].Kill();
    servers_[i % 2].Start();
  }
  done = true;
}

TEST_F(ShardFaultsTest, AShardLostBeforeItIsSealedIsFilledAgain) {
  const auto corpus = MakeCorpus(3000);  // some 130 calls to fill a shard
  absl::Status status;
  std::jthread fill([&] { status = corpus->Load(vectors_, {}, nullptr); });
  const fs::path shards = servers_[0].home() / "neighbors";
  EXPECT_TRUE(WaitUntil([&] { return fs::exists(shards) && !fs::is_empty(shards); }));
  servers_[0].Kill();
  servers_[0].Start();
  fill.join();
  ASSERT_TRUE(status.ok()) << status;
  ExpectExactNeighbors(corpus.get());
}

TEST_F(ShardFaultsTest, ADamagedShardIsNotReadButFilledAgain) {
  const auto corpus = MakeCorpus(100'000);
  ASSERT_TRUE(corpus->Load(vectors_, {}, nullptr).ok());
  servers_[0].Kill();
  const fs::path shard =
      fs::directory_iterator(servers_[0].home() / "neighbors")->path() / "vectors.npy";
  {
    // A hundred numbers become so large that reading them would change most results.
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    file << std::string(400, '\x55') << std::flush;
    ASSERT_TRUE(file.good()) << shard;
  }
  servers_[0].Start();
  ExpectExactNeighbors(corpus.get());
}

TEST_F(ShardFaultsTest, AServerThatLostItsDiskIsFilledAgain) {
  const auto corpus = MakeCorpus(100'000);
  ASSERT_TRUE(corpus->Load(vectors_, {}, nullptr).ok());
  servers_[1].Kill();
  fs::remove_all(servers_[1].home());
  servers_[1].Start();
  ExpectExactNeighbors(corpus.get());
  corpus->Drop();
  EXPECT_TRUE(fs::is_empty(servers_[1].home() / "neighbors"));
}

}  // namespace shard_faults_test
}  // namespace braid
