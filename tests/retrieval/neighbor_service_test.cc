#include "retrieval/neighbor_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "braid/v1/neighbors.grpc.pb.h"
#include "retrieval/vector_index.h"

namespace braid {
namespace neighbor_service_test {

constexpr int32_t kDimension = 8;

std::vector<float> RandomValues(int64_t num_vectors, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(num_vectors * kDimension);
  for (float& value : values) value = normal(random);
  for (auto row = values.begin(); row != values.end(); row += kDimension) {
    const float norm = std::sqrt(std::inner_product(row, row + kDimension, row, 0.0f));
    std::for_each(row, row + kDimension, [norm](float& value) { value /= norm; });
  }
  return values;
}

class NeighborServiceTest : public testing::Test {
 protected:
  using Stub = v1::NeighborService::Stub;

  NeighborServiceTest()
      : home_(std::filesystem::path(testing::TempDir()) /
              ("shards-" + std::to_string(getpid()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    Start();
  }
  ~NeighborServiceTest() override {
    server_->Shutdown();
    std::filesystem::remove_all(home_);
  }

  void Start() {
    service_ = MakeNeighborService(home_);
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::NeighborService::NewStub(server_->InProcessChannel({}));
  }
  void Restart() {
    stub_.reset();
    server_->Shutdown();
    Start();
  }

  grpc::StatusCode Create(const std::string& shard, const std::string& index = "",
                          int32_t dimension = kDimension) {
    v1::CreateShardRequest request;
    request.set_shard(shard);
    request.set_dimension(dimension);
    request.set_index(index);
    v1::CreateShardResponse response;
    return Call(&Stub::Create, request, &response);
  }

  grpc::StatusCode Train(const std::string& shard, const std::vector<float>& values) {
    v1::TrainShardRequest request;
    request.set_shard(shard);
    request.mutable_values()->Add(values.begin(), values.end());
    v1::TrainShardResponse response;
    return Call(&Stub::Train, request, &response);
  }

  // Ids first_id, first_id + 1, ...
  grpc::StatusCode Add(const std::string& shard, int64_t first_id,
                       const std::vector<float>& values) {
    v1::AddVectorsRequest request;
    request.set_shard(shard);
    for (size_t i = 0; i < values.size() / kDimension; ++i) {
      request.add_ids(first_id + static_cast<int64_t>(i));
    }
    request.mutable_values()->Add(values.begin(), values.end());
    v1::AddVectorsResponse response;
    const grpc::StatusCode code = Call(&Stub::Add, request, &response);
    num_vectors_ = response.num_vectors();
    return code;
  }

  grpc::StatusCode Search(const std::string& shard, const std::vector<float>& values, int32_t k,
                          int64_t num_probes = 0) {
    v1::SearchRequest request;
    request.set_shard(shard);
    request.set_k(k);
    request.set_num_probes(num_probes);
    request.mutable_values()->Add(values.begin(), values.end());
    found_.Clear();
    return Call(&Stub::Search, request, &found_);
  }

  grpc::StatusCode Seal(const std::string& shard) {
    v1::SealShardRequest request;
    request.set_shard(shard);
    return Call(&Stub::Seal, request, &sealed_);
  }

  grpc::StatusCode SetCentroids(const std::string& shard, int64_t first,
                                const std::vector<float>& values) {
    v1::SetCentroidsRequest request;
    request.set_shard(shard);
    request.set_first(first);
    request.mutable_values()->Add(values.begin(), values.end());
    v1::SetCentroidsResponse response;
    return Call(&Stub::SetCentroids, request, &response);
  }

  // Returns whether there was one.
  bool Drop(const std::string& shard) {
    v1::DropShardRequest request;
    request.set_shard(shard);
    v1::DropShardResponse response;
    EXPECT_EQ(Call(&Stub::Drop, request, &response), grpc::OK) << message_;
    return response.existed();
  }

  v1::ShardDescription Describe(const std::string& shard) {
    v1::DescribeShardRequest request;
    request.set_shard(shard);
    v1::ShardDescription response;
    EXPECT_EQ(Call(&Stub::Describe, request, &response), grpc::OK) << message_;
    return response;
  }

  template <class Request, class Response>
  grpc::StatusCode Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                     Response*),
                        const Request& request, Response* response) {
    grpc::ClientContext context;
    const grpc::Status status = (stub_.get()->*method)(&context, request, response);
    message_ = status.error_message();
    return status.error_code();
  }

  std::filesystem::path home_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Stub> stub_;
  int64_t num_vectors_ = 0;
  v1::SearchResponse found_;
  v1::SealShardResponse sealed_;
  std::string message_;
};

TEST_F(NeighborServiceTest, EqualsExactSearch) {
  const std::vector<float> values = RandomValues(300, 1), queries = RandomValues(40, 2);
  ASSERT_EQ(Create("docs-0"), grpc::OK) << message_;
  const auto half = values.begin() + 150 * kDimension;
  ASSERT_EQ(Add("docs-0", 0, {values.begin(), half}), grpc::OK) << message_;
  ASSERT_EQ(Add("docs-0", 150, {half, values.end()}), grpc::OK) << message_;
  EXPECT_EQ(num_vectors_, 300);
  EXPECT_EQ(Search("docs-0", queries, 7), grpc::FAILED_PRECONDITION) << "not sealed yet";
  ASSERT_EQ(Seal("docs-0"), grpc::OK) << message_;
  ASSERT_EQ(Search("docs-0", queries, 7), grpc::OK) << message_;
  std::vector<int64_t> ids(40 * 7);
  std::vector<float> scores(40 * 7);
  ASSERT_TRUE(ExactSearch(values, queries, kDimension, 7, {ids, scores}).ok());
  EXPECT_THAT(found_.ids(), testing::ElementsAreArray(ids));
  EXPECT_THAT(found_.scores(), testing::Pointwise(testing::FloatNear(1e-5f), scores));
}

TEST_F(NeighborServiceTest, FillsMissingResultsAndBreaksTiesById) {
  const std::vector<float> one = RandomValues(1, 3);
  ASSERT_EQ(Create("empty"), grpc::OK);
  ASSERT_EQ(Seal("empty"), grpc::OK) << message_;
  ASSERT_EQ(Search("empty", one, 2), grpc::OK) << message_;
  EXPECT_THAT(found_.ids(), testing::ElementsAre(-1, -1));
  ASSERT_EQ(Create("s"), grpc::OK);
  for (int64_t id : {4, 6, 9}) ASSERT_EQ(Add("s", id, one), grpc::OK);
  ASSERT_EQ(Seal("s"), grpc::OK) << message_;
  ASSERT_EQ(Search("s", one, 5), grpc::OK);
  EXPECT_THAT(found_.ids(), testing::ElementsAre(4, 6, 9, -1, -1));
}

TEST_F(NeighborServiceTest, RequiresTrainingOfIndexesThatLearn) {
  ASSERT_EQ(Create("s", "IVF4,Flat"), grpc::OK) << message_;
  const std::vector<float> values = RandomValues(200, 4);
  EXPECT_EQ(Add("s", 0, values), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(Search("s", values, 1), grpc::FAILED_PRECONDITION);
  ASSERT_EQ(Train("s", values), grpc::OK) << message_;
  EXPECT_EQ(Train("s", values), grpc::FAILED_PRECONDITION);
  ASSERT_EQ(Add("s", 0, values), grpc::OK) << message_;
  ASSERT_EQ(Seal("s"), grpc::OK) << message_;
  for (int64_t num_probes : {0, 1, 4}) {
    ASSERT_EQ(Search("s", {values.begin(), values.begin() + kDimension}, 1, num_probes), grpc::OK);
    EXPECT_THAT(found_.ids(), testing::ElementsAre(0));
  }
  EXPECT_EQ(Search("s", values, 1, 5), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(message_, testing::HasSubstr("num_probes: got 5, expected 0 to 4"));
}

TEST_F(NeighborServiceTest, KeepsFaissIndexesOfOtherKinds) {
  const std::vector<float> values = RandomValues(300, 14);
  ASSERT_EQ(Create("s", "HNSW8"), grpc::OK) << message_;
  ASSERT_EQ(Add("s", 0, values), grpc::OK) << message_;
  ASSERT_EQ(Search("s", values, 1), grpc::OK) << message_;
  ASSERT_EQ(Seal("s"), grpc::OK) << message_;
  Restart();
  ASSERT_EQ(Search("s", values, 1), grpc::OK) << message_;
  int num_own = 0;
  for (int i = 0; i < 300; ++i) num_own += found_.ids(i) == i;
  EXPECT_GE(num_own, 290);
}

TEST_F(NeighborServiceTest, AcceptsCentroidsInPartsAndRepeatedly) {
  const std::vector<float> centroids = RandomValues(4, 15), values = RandomValues(100, 16);
  const std::vector<float> head(centroids.begin(), centroids.begin() + 3 * kDimension),
      tail(centroids.begin() + 2 * kDimension, centroids.end());
  ASSERT_EQ(Create("s", "IVF4,Flat"), grpc::OK) << message_;
  EXPECT_EQ(SetCentroids("s", 1, head), grpc::INVALID_ARGUMENT) << "a gap";
  ASSERT_EQ(SetCentroids("s", 0, head), grpc::OK) << message_;
  EXPECT_EQ(Add("s", 0, values), grpc::FAILED_PRECONDITION);
  ASSERT_EQ(SetCentroids("s", 2, tail), grpc::OK) << message_;
  ASSERT_EQ(SetCentroids("s", 2, tail), grpc::OK) << message_;
  EXPECT_EQ(SetCentroids("s", 3, tail), grpc::INVALID_ARGUMENT) << "too many";
  ASSERT_EQ(Add("s", 0, values), grpc::OK) << message_;
  EXPECT_EQ(SetCentroids("s", 0, head), grpc::FAILED_PRECONDITION);
  ASSERT_EQ(Seal("s"), grpc::OK) << message_;
  EXPECT_EQ(Describe("s").num_centroids(), 4);
  ASSERT_EQ(Search("s", values, 5, 4), grpc::OK) << message_;
  const v1::SearchResponse all_lists = found_;
  ASSERT_EQ(Search("s", values, 5), grpc::OK) << message_;
  EXPECT_EQ(all_lists.SerializeAsString(), found_.SerializeAsString());
}

TEST_F(NeighborServiceTest, ARepeatedAddIsIdempotent) {
  const std::vector<float> values = RandomValues(10, 17);
  ASSERT_EQ(Create("s"), grpc::OK);
  v1::AddVectorsRequest request;
  request.set_shard("s");
  for (int i = 0; i < 10; ++i) request.add_ids(100 + i);
  request.mutable_values()->Add(values.begin(), values.end());
  const auto add = [&](int64_t position) {
    request.set_position(position);
    v1::AddVectorsResponse response;
    const grpc::StatusCode code = Call(&Stub::Add, request, &response);
    num_vectors_ = response.num_vectors();
    return code;
  };
  ASSERT_EQ(add(0), grpc::OK) << message_;
  ASSERT_EQ(add(0), grpc::OK) << message_;
  EXPECT_EQ(num_vectors_, 10);
  for (int64_t position : {-1, 1, 5, 11}) EXPECT_EQ(add(position), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(message_, testing::HasSubstr("holds 10 vectors, expected 11"));
  request.set_ids(3, 999);
  EXPECT_EQ(add(0), grpc::FAILED_PRECONDITION) << "other vectors";
}

TEST_F(NeighborServiceTest, DescribesAndDropsShards) {
  ASSERT_EQ(Create("s", "IVF3,Flat"), grpc::OK);
  EXPECT_FALSE(Describe("s").sealed());
  EXPECT_EQ(Describe("s").index(), "IVF3,Flat");
  EXPECT_TRUE(Drop("s"));
  EXPECT_FALSE(Drop("s"));
  EXPECT_FALSE(std::filesystem::exists(home_ / "s"));
  ASSERT_EQ(Create("s"), grpc::OK);
  ASSERT_EQ(Add("s", 0, RandomValues(7, 18)), grpc::OK);
  ASSERT_EQ(Seal("s"), grpc::OK);
  EXPECT_EQ(Describe("s").num_vectors(), 7);
  EXPECT_TRUE(Describe("s").sealed());
  Restart();
  EXPECT_TRUE(Drop("s"));
  EXPECT_EQ(Search("s", RandomValues(1, 18), 1), grpc::NOT_FOUND);
  EXPECT_FALSE(std::filesystem::exists(home_ / "s"));
}

TEST_F(NeighborServiceTest, ASealedShardSurvivesTheServer) {
  const std::vector<float> values = RandomValues(50, 5);
  ASSERT_EQ(Create("s"), grpc::OK);
  ASSERT_EQ(Add("s", 100, values), grpc::OK);
  ASSERT_EQ(Seal("s"), grpc::OK) << message_;
  const auto file = SummarizeFile(sealed_.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->crc32c, sealed_.crc32c());
  EXPECT_EQ(Add("s", 0, values), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(Train("s", values), grpc::FAILED_PRECONDITION);
  const v1::SealShardResponse first = sealed_;
  ASSERT_EQ(Seal("s"), grpc::OK);
  EXPECT_EQ(sealed_.crc32c(), first.crc32c());
  ASSERT_EQ(Search("s", values, 3), grpc::OK);
  const v1::SearchResponse before = found_;

  Restart();
  EXPECT_EQ(Create("s"), grpc::ALREADY_EXISTS);
  ASSERT_EQ(Search("s", values, 3), grpc::OK) << message_;
  EXPECT_EQ(found_.SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(Add("s", 0, values), grpc::FAILED_PRECONDITION);
  ASSERT_EQ(Seal("s"), grpc::OK);
  EXPECT_EQ(sealed_.SerializeAsString(), first.SerializeAsString());
}

TEST_F(NeighborServiceTest, RefusesADamagedShard) {
  ASSERT_EQ(Create("s"), grpc::OK);
  ASSERT_EQ(Add("s", 0, RandomValues(50, 6)), grpc::OK);
  ASSERT_EQ(Seal("s"), grpc::OK);
  const std::filesystem::path vectors = home_ / "s" / "vectors.npy";
  {
    std::fstream file(vectors, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(700);
    file.put('\x55');
  }
  Restart();
  EXPECT_EQ(Search("s", RandomValues(1, 7), 1), grpc::DATA_LOSS);
  EXPECT_THAT(message_, testing::HasSubstr("vectors.npy"));
  EXPECT_TRUE(Drop("s"));
  EXPECT_EQ(Create("s"), grpc::OK) << message_;
}

TEST_F(NeighborServiceTest, AnUnsealedShardDoesNotSurviveTheServer) {
  ASSERT_EQ(Create("s"), grpc::OK);
  // Files as a killed process leaves them; files that do not belong to a shard must remain.
  std::filesystem::create_directories(home_ / "killed");
  std::ofstream(home_ / "killed" / "vectors.npy.tmp") << "half";
  std::filesystem::create_directories(home_ / "mine");
  std::ofstream(home_ / "mine" / "notes.txt") << "not a shard";
  Restart();
  EXPECT_EQ(Search("s", RandomValues(1, 8), 1), grpc::NOT_FOUND);
  EXPECT_EQ(Create("s"), grpc::OK);
  EXPECT_FALSE(std::filesystem::exists(home_ / "killed"));
  EXPECT_TRUE(std::filesystem::exists(home_ / "mine" / "notes.txt"));
}

TEST_F(NeighborServiceTest, ErrorsNameUnknownShards) {
  const std::vector<float> values = RandomValues(1, 9);
  EXPECT_EQ(Search("missing", values, 1), grpc::NOT_FOUND);
  EXPECT_THAT(message_, testing::HasSubstr("missing"));
  EXPECT_EQ(Add("missing", 0, values), grpc::NOT_FOUND);
  EXPECT_EQ(Train("missing", values), grpc::NOT_FOUND);
  EXPECT_EQ(Seal("missing"), grpc::NOT_FOUND);
}

TEST_F(NeighborServiceTest, RefusesInvalidNames) {
  for (const std::string name : {"", ".", "..", "a/b", "../x", "a b", "a.b", "ä", "x\n"}) {
    EXPECT_EQ(Create(name), grpc::INVALID_ARGUMENT) << name;
    EXPECT_EQ(Seal(name), grpc::INVALID_ARGUMENT) << name;
  }
  EXPECT_EQ(Create(std::string(101, 'a')), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Create("Az09-_"), grpc::OK);
}

TEST_F(NeighborServiceTest, RefusesInvalidShards) {
  for (const char* index : {"nonsense", "PQ0", "NSG8"})
    EXPECT_EQ(Create("s", index), grpc::INVALID_ARGUMENT) << index;
  for (int32_t wrong : {0, -4}) EXPECT_EQ(Create("s", "Flat", wrong), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Create("s"), grpc::OK);
  EXPECT_EQ(Create("s"), grpc::ALREADY_EXISTS);
}

TEST_F(NeighborServiceTest, RefusesInvalidVectors) {
  ASSERT_EQ(Create("s"), grpc::OK);
  EXPECT_EQ(Add("s", 0, std::vector<float>(kDimension + 1)), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Add("s", -5, RandomValues(1, 1)), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Add("s", 0, {}), grpc::INVALID_ARGUMENT);
  for (float wrong : {INFINITY, NAN, 2.0f}) {
    std::vector<float> values = RandomValues(2, 1);
    values[kDimension + 3] = wrong;
    EXPECT_EQ(Add("s", 0, values), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(message_, testing::HasSubstr("vector 1 has squared norm"));
    EXPECT_EQ(Search("s", values, 1), grpc::INVALID_ARGUMENT);
  }
  ASSERT_EQ(Add("s", 5, RandomValues(2, 1)), grpc::OK);
  EXPECT_EQ(Add("s", 6, RandomValues(2, 1)), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(message_, testing::HasSubstr("got id 6, expected ascending ids: one above 6"));
  v1::AddVectorsRequest no_ids;
  no_ids.set_shard("s");
  no_ids.mutable_values()->Resize(kDimension, 1);
  v1::AddVectorsResponse response;
  EXPECT_EQ(Call(&Stub::Add, no_ids, &response), grpc::INVALID_ARGUMENT);
}

TEST_F(NeighborServiceTest, RefusesInvalidSearches) {
  ASSERT_EQ(Create("s"), grpc::OK);
  ASSERT_EQ(Seal("s"), grpc::OK);
  EXPECT_EQ(Search("s", RandomValues(400, 1), 1000), grpc::INVALID_ARGUMENT) << "too many results";
  const std::vector<float> one = RandomValues(1, 1);
  for (int64_t probes : {-1, 1}) EXPECT_EQ(Search("s", one, 1, probes), grpc::INVALID_ARGUMENT);
  for (int32_t k : {0, -1, 2'000'000'000}) EXPECT_EQ(Search("s", one, k), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Search("s", {1, 2, 3}, 1), grpc::INVALID_ARGUMENT);
}

}  // namespace neighbor_service_test
}  // namespace braid
