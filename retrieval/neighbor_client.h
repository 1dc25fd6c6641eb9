// Calls to one neighbor server (neighbors.proto). Each call is idempotent and is repeated until it
// is answered.
#ifndef BRAID_RETRIEVAL_NEIGHBOR_CLIENT_H_
#define BRAID_RETRIEVAL_NEIGHBOR_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

struct NeighborClientOptions {
  // Deadline of one attempt. Sealing has its own, because it assigns all vectors to lists.
  std::chrono::milliseconds deadline{60'000};
  std::chrono::milliseconds seal_deadline{86'400'000};
  // Maximum time, from its first failure, for which a call is repeated that fails with UNAVAILABLE
  // or DEADLINE_EXCEEDED, or that the server cancels because it shuts down.
  std::chrono::milliseconds give_up_after{300'000};
  // Called from any thread when the server does not answer: with its address, why, and how long the
  // call waits for it; with "" once the server has answered.
  std::function<void(const std::string& address, const std::string& waiting)> on_waiting = nullptr;
};

// The state of a shard as described by its server.
struct ShardState {
  int32_t dimension = 0;
  std::string index;
  int64_t num_vectors = 0, num_centroids = 0;
  bool sealed = false;
};

// Thread-safe. Errors are those of neighbor_service.h, preceded by address and shard; UNAVAILABLE
// or DEADLINE_EXCEEDED after options.give_up_after; CANCELLED within a second after `stop`, which
// may be null, returns true.
class NeighborClient {
 public:
  using Stop = std::function<bool()>;

  // Creates a client without connecting. INVALID_ARGUMENT unless `address` is HOST:PORT.
  static absl::StatusOr<std::unique_ptr<NeighborClient>> Make(const std::string& address,
                                                              const NeighborClientOptions& options);
  ~NeighborClient();

  const std::string& address() const { return address_; }

  absl::Status Create(const std::string& shard, int32_t dimension, const std::string& index,
                      const Stop& stop) const;
  // Returns nullopt if there is no shard with that name.
  absl::StatusOr<std::optional<ShardState>> Describe(const std::string& shard,
                                                     const Stop& stop) const;
  absl::Status SetCentroids(const std::string& shard, int64_t first, std::span<const float> values,
                            const Stop& stop) const;
  // Adds vectors with ids first_id, first_id + 1, ...
  absl::Status Add(const std::string& shard, int64_t position, int64_t first_id, int64_t count,
                   std::span<const float> values, const Stop& stop) const;
  absl::Status Seal(const std::string& shard, const Stop& stop) const;

  struct Hits {
    std::vector<int64_t> ids;   // [queries, k]
    std::vector<float> scores;  // [queries, k]
  };
  absl::StatusOr<Hits> Search(const std::string& shard, int32_t k, int64_t num_probes,
                              std::span<const float> values, const Stop& stop) const;
  // Makes one attempt within `deadline`.
  absl::Status Drop(const std::string& shard, std::chrono::milliseconds deadline) const;

 private:
  struct Connection;
  NeighborClient(std::string address, std::unique_ptr<Connection> connection);

  absl::Status Locate(const std::string& shard, const absl::Status& status) const;

  const std::string address_;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_CLIENT_H_
