// A corpus divided among several neighbor servers, one shard each.
//
// The documents are divided into ranges. Every shard returns the k + 1 nearest of its own
// documents, and the best k of all answers, by (score, id), are the result of one search of
// everything. Scores are InnerProduct() on every machine, so the result depends neither on the
// number of shards nor on the order of the answers. With lists, all shards have the same centroids
// and search the same lists.
//
// A shard whose server restarts is read there from its sealed files. A shard that is lost or
// damaged is dropped and filled again from the vectors while the other shards are searched.
//
//   ASSIGN_OR_RETURN(auto corpus, ShardedCorpus::Make("corpus-17", {.addresses = servers}));
//   RETURN_IF_ERROR(corpus->Load(vectors, centroids, check));
//   RETURN_IF_ERROR(corpus->MakeListSearch(k)->Find(documents, rows, check));
//   corpus->Drop();
#ifndef BRAID_RETRIEVAL_SHARDED_SEARCH_H_
#define BRAID_RETRIEVAL_SHARDED_SEARCH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "retrieval/neighbor_client.h"
#include "retrieval/remote_neighbors.h"

namespace braid {

struct ShardedCorpusOptions {
  // HOST:PORT of each server.
  std::vector<std::string> addresses = {};
  NeighborClientOptions client = {};
  // Concurrent searches at each server.
  int calls_per_server = 2;
  // Maximum bytes of vectors in a message; gRPC refuses messages above 4 MiB.
  int64_t max_message_bytes = 3'000'000;
  // Maximum number of times in a row that a lost shard is filled again.
  int max_refills = 3;
};

// The documents [begin, end) of n that shard i of `num_shards` holds. With at least 1,024 documents
// per shard, ranges begin at multiples of 1,024, so that documents are assigned to lists in the
// same blocks as by one search.
struct ShardRange {
  int64_t begin, end;
  static ShardRange Of(int64_t n, int64_t num_shards, int64_t i);
};

class ShardedCorpus final : public RemoteNeighbors {
 public:
  // `name` is the prefix of the names of the shards; the same name must mean the same vectors.
  // INVALID_ARGUMENT for an invalid name or address.
  static absl::StatusOr<std::unique_ptr<ShardedCorpus>> Make(const std::string& name,
                                                             const ShardedCorpusOptions& options);

  absl::Status Load(const DocumentVectors& vectors, std::span<const float> centroids,
                    const StopCheck& check) override;
  std::unique_ptr<NeighborSearch> MakeExactSearch(int32_t k) override;
  std::unique_ptr<NeighborSearch> MakeListSearch(int32_t k) override;

  // Removes the shards from the servers that answer within seconds.
  void Drop();

 private:
  friend class ShardedSearch;

  struct Shard {
    std::unique_ptr<NeighborClient> client;
    std::string name;
    ShardRange range{};
    std::mutex filling;
    std::atomic<int64_t> generation{0};  // times it was filled
    std::atomic<int> refills_in_a_row{0};
  };

  ShardedCorpus(std::string name, const ShardedCorpusOptions& options)
      : name_(std::move(name)), options_(options) {}

  int64_t RowsPerMessage(int64_t row_bytes) const;
  std::string IndexString() const;
  std::string ShardName(int64_t i) const;
  absl::Status Fill(const Shard& shard, const NeighborClient::Stop& stop) const;
  absl::Status FillOnce(const Shard& shard, const NeighborClient::Stop& stop) const;
  absl::StatusOr<ShardState> FindOrCreate(const Shard& shard,
                                          const NeighborClient::Stop& stop) const;
  absl::Status Refill(Shard* shard, int64_t generation, const absl::Status& cause,
                      const NeighborClient::Stop& stop) const;
  // `values`: [queries, d].
  absl::StatusOr<NeighborClient::Hits> SearchShard(Shard* shard, int32_t k, int64_t num_probes,
                                                   std::span<const float> values,
                                                   const NeighborClient::Stop& stop) const;

  const std::string name_;
  const ShardedCorpusOptions options_;
  DocumentVectors vectors_{};
  std::span<const float> centroids_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_SHARDED_SEARCH_H_
