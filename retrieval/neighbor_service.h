// NeighborService (braid/v1/neighbors.proto): named FAISS shards.
//
// A shard is built in memory (Create, Train, Add), can be searched from the first
// vector on, and becomes a directory HOME/<shard>/ with index.faiss and
// manifest.json when sealed. Sealed shards outlive the process: after a restart
// they are verified and read at their first use. A shard that was not sealed is
// gone after a restart.
//
// Status codes: NOT_FOUND unknown shard; ALREADY_EXISTS Create of a name in use;
// INVALID_ARGUMENT bad name, index string, dimension, k or values; FAILED_PRECONDITION
// Add or Search before Train, Add or Train after Seal, Train twice or after Add;
// DATA_LOSS a damaged sealed shard. Seal may be repeated and answers the same. Add is
// not idempotent: after a lost answer, compare num_vectors.
#ifndef BRAID_RETRIEVAL_NEIGHBOR_SERVICE_H_
#define BRAID_RETRIEVAL_NEIGHBOR_SERVICE_H_

#include <filesystem>
#include <memory>

namespace grpc {
class Service;
}

namespace braid {

// `home` is created at the first Seal. One service per home.
std::unique_ptr<grpc::Service> MakeNeighborService(const std::filesystem::path& home);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_SERVICE_H_
